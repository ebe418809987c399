#include "tessera/parallel/context/block_kernel.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/comm/memory.h"
#include "tessera/comm/threads/run_ranks.h"

namespace tessera {
namespace {

double difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

// The products that other devices use give what the CPU's kernel gives, however few queries' scores
// may exist at once: all of them, four queries', one's.
TEST(BlockKernel, ProductsEqualTheFlashKernel) {
  at::manual_seed(1);
  const auto random = [](std::vector<int64_t> sizes) { return at::randn(sizes, at::kDouble); };
  for (const bool causal : {true, false}) {
    for (const int64_t kv_heads : {1, 2, 6}) {
      const int64_t keys = causal ? 9 : 5;
      const at::Tensor q = random({2, 6, 9, 4}), grad_out = random({2, 6, 9, 4});
      const at::Tensor k = random({2, kv_heads, keys, 4}), v = random({2, kv_heads, keys, 4});
      const auto [out, lse] = attend_block(q, k, v, causal, 0.5);
      // As for a block that was merged with another: a larger log-sum-exp.
      const at::Tensor merged = lse + 0.3, mean = out * 0.7;
      const auto exact = attend_block_backward(grad_out, q, k, v, mean, merged, causal, 0.5);
      const int64_t bytes_of_query = 2 * 6 * keys * 8;
      for (const int64_t bytes : {kScoreBytes, 4 * bytes_of_query, int64_t{1}}) {
        const auto [out_p, lse_p] = attend_block_by_products(q, k, v, causal, 0.5, bytes);
        EXPECT_LT(difference(out_p, out), 1e-13);
        EXPECT_LT(difference(lse_p, lse), 1e-13);
        const auto products =
            attend_block_backward_by_products(grad_out, q, k, v, mean, merged, causal, 0.5, bytes);
        for (size_t i = 0; i < 3; ++i) EXPECT_LT(difference(products[i], exact[i]), 1e-12) << i;
      }
    }
  }
}

// 1024 x 1024 scores of two heads are 16 MiB.
TEST(BlockKernel, ProductsTakeNoMoreMemoryThanAsked) {
  run_ranks(1, [](const ProcessGroup&) {
    const at::Tensor q = at::randn({1, 2, 1024, 8}, at::kDouble);
    for (const bool causal : {true, false}) {
      const auto peak = [&](int64_t bytes) {
        reset_peak_memory(memory_rank());
        const int64_t before = memory_use(memory_rank()).current;
        const auto [out, lse] = attend_block_by_products(q, q, q, causal, 0.5, bytes);
        attend_block_backward_by_products(q, q, q, q, out, lse, causal, 0.5, bytes);
        return memory_use(memory_rank()).peak - before;
      };
      EXPECT_GT(peak(kScoreBytes), int64_t{32} << 20);
      EXPECT_LT(peak(int64_t{1} << 20), int64_t{8} << 20);
    }
  });
}

}  // namespace
}  // namespace tessera
