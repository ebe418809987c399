#include "tessera/parallel/block_kernel.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

double difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

// The products that other devices use give what the CPU's kernel gives.
TEST(BlockKernel, ProductsEqualTheFlashKernel) {
  at::manual_seed(1);
  const auto random = [](std::vector<int64_t> sizes) { return at::randn(sizes, at::kDouble); };
  for (const bool causal : {true, false}) {
    for (const int64_t kv_heads : {1, 2, 6}) {
      const int64_t keys = causal ? 9 : 5;
      const at::Tensor q = random({2, 6, 9, 4}), grad_out = random({2, 6, 9, 4});
      const at::Tensor k = random({2, kv_heads, keys, 4}), v = random({2, kv_heads, keys, 4});
      const auto [out, lse] = attend_block(q, k, v, causal, 0.5);
      const auto [out_p, lse_p] = attend_block_by_products(q, k, v, causal, 0.5);
      EXPECT_LT(difference(out_p, out), 1e-13);
      EXPECT_LT(difference(lse_p, lse), 1e-13);
      // As for a block that was merged with another: a larger log-sum-exp.
      const at::Tensor merged = lse + 0.3, mean = out * 0.7;
      const auto exact = attend_block_backward(grad_out, q, k, v, mean, merged, causal, 0.5);
      const auto products =
          attend_block_backward_by_products(grad_out, q, k, v, mean, merged, causal, 0.5);
      for (size_t i = 0; i < 3; ++i) EXPECT_LT(difference(products[i], exact[i]), 1e-12) << i;
    }
  }
}

}  // namespace
}  // namespace tessera
