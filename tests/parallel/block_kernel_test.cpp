#include "tessera/parallel/context/block_kernel.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tessera/comm/memory.h"
#include "tessera/comm/threads/run_ranks.h"

namespace tessera {
namespace {

double difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

struct Places {
  bool causal;
  int64_t keys;
  int64_t ahead;  // places from the first key to the first query
  int64_t window;
  double soft_cap;
};

// The products that other devices use give what the CPU's kernel gives, however few queries' scores
// may exist at once: all of them, four queries', one's. What queries saw before is kept.
TEST(BlockKernel, ProductsEqualTheFlashKernel) {
  at::manual_seed(1);
  const auto random = [](std::vector<int64_t> sizes) { return at::randn(sizes, at::kDouble); };
  const std::vector<Places> all{
      {true, 9, 0, 0, 0}, {false, 5, 5, 0, 0}, {true, 9, 0, 3, 2.0}, {false, 5, 5, 7, 0}};
  for (const Places& where : all) {
    const AttentionScores scores{
        .scale = 0.5, .soft_cap = where.soft_cap, .window = where.window, .sinks = {}};
    FlashPlaces places;
    places.causal = where.causal;
    places.first_query = where.ahead;
    for (const int64_t kv_heads : {1, 2, 6}) {
      const at::Tensor q = random({2, 6, 9, 4}), grad_out = random({2, 6, 9, 3});
      const at::Tensor k = random({2, kv_heads, where.keys, 4}),
                       v = random({2, kv_heads, where.keys, 3});
      const at::Tensor before = random({2, 6, 9, 3}), lse_before = random({2, 6, 9});
      const at::Tensor out = before.clone(), lse = lse_before.clone();
      const at::Tensor largest = attend_block(q, k, v, scores, places, out, lse, true);
      const BlockSaved saved{grad_out, q, k, v, out, lse};
      const BlockGrads exact{random(q.sizes().vec()), random(k.sizes().vec()),
                             random(v.sizes().vec())};
      const BlockGrads first{exact.q.clone(), exact.k.clone(), exact.v.clone()};
      attend_block_backward(saved, scores, places, exact);
      const int64_t bytes_of_query = 2 * 6 * where.keys * 8;
      for (const int64_t bytes : {kScoreBytes, 4 * bytes_of_query, int64_t{1}}) {
        const at::Tensor out_p = before.clone(), lse_p = lse_before.clone();
        const at::Tensor largest_p =
            attend_block_by_products(q, k, v, scores, places, out_p, lse_p, true, bytes);
        EXPECT_TRUE(at::allclose(largest_p, largest, 1e-13, 1e-13));
        EXPECT_LT(difference(out_p, out), 1e-13);
        EXPECT_LT(difference(lse_p, lse), 1e-13);
        const BlockGrads got{first.q.clone(), first.k.clone(), first.v.clone()};
        attend_block_backward_by_products(saved, scores, places, got, bytes);
        EXPECT_LT(difference(got.q, exact.q), 1e-12);
        EXPECT_LT(difference(got.k, exact.k), 1e-12);
        EXPECT_LT(difference(got.v, exact.v), 1e-12);
      }
    }
  }
}

// 1024 x 1024 scores of two heads are 16 MiB.
TEST(BlockKernel, ProductsTakeNoMoreMemoryThanAsked) {
  run_ranks(1, [](const ProcessGroup&) {
    const at::Tensor q = at::randn({1, 2, 1024, 8}, at::kDouble);
    for (const bool causal : {true, false}) {
      const AttentionScores scores{.scale = 0.5, .sinks = {}};
      FlashPlaces places;
      places.causal = causal;
      const at::Tensor out = at::zeros_like(q),
                       lse = at::full({1, 2, 1024}, -INFINITY, at::kDouble);
      const BlockGrads grads{at::zeros_like(q), at::zeros_like(q), at::zeros_like(q)};
      const auto peak = [&](int64_t bytes) {
        reset_peak_memory(memory_rank());
        const int64_t before = memory_use(memory_rank()).current;
        attend_block_by_products(q, q, q, scores, places, out, lse, false, bytes);
        attend_block_backward_by_products({q, q, q, q, out, lse}, scores, places, grads, bytes);
        return memory_use(memory_rank()).peak - before;
      };
      EXPECT_GT(peak(kScoreBytes), int64_t{32} << 20);
      EXPECT_LT(peak(int64_t{1} << 20), int64_t{8} << 20);
    }
  });
}

}  // namespace
}  // namespace tessera
