// The backward of attention by widening, against float64.

#include "tessera/nn/attention/widened_flash.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/layout/size_choices.h"
#include "tests/nn/gradient_check.h"

namespace tessera {
namespace {

at::Tensor heads(int64_t samples, int64_t heads, int64_t length, int64_t size, double seed) {
  return sample_values({samples, length, heads, size}, seed).to(at::kBFloat16).transpose(1, 2);
}

// Each gradient is rounded once, to eight bits.
void expect_rounded_once(const at::Tensor& got, const at::Tensor& exact, const char* what) {
  ASSERT_EQ(got.scalar_type(), at::kBFloat16);
  ASSERT_EQ(got.sizes(), exact.sizes());
  const at::Tensor allowed = exact.abs() / 256 + 1e-4 * exact.abs().max();
  const at::Tensor error = (got.to(at::kDouble) - exact).abs();
  EXPECT_TRUE(error.le(allowed).all().item<bool>()) << what << " " << (error - allowed).max();
}

struct Sizes {
  int64_t samples, q_heads, kv_heads, queries, keys;
};

void expect_those_of_float64(const Sizes& s, bool causal) {
  constexpr int64_t kHeadSize = 64;
  const at::Tensor q = heads(s.samples, s.q_heads, s.queries, kHeadSize, 1);
  const at::Tensor k = heads(s.samples, s.kv_heads, s.keys, kHeadSize, 2);
  const at::Tensor v = heads(s.samples, s.kv_heads, s.keys, kHeadSize, 3);
  const at::Tensor grad_out = heads(s.samples, s.q_heads, s.queries, kHeadSize, 4);
  const double scale = 0.3;
  const auto wide = [](const at::Tensor& x) { return x.to(at::kDouble); };
  const FlashResult result = flash_forward(wide(q), wide(k), wide(v), causal, scale);
  const at::Tensor out = result.out.to(at::kBFloat16);
  const FlashGrads exact = flash_backward(wide(grad_out), wide(q), wide(k), wide(v), wide(out),
                                          result.lse, causal, scale);
  const FlashGrads got =
      widened_flash_backward(grad_out, q, k, v, out, result.lse.to(at::kFloat), causal, scale);
  expect_rounded_once(got.q, exact.q, "q");
  expect_rounded_once(got.k, exact.k, "k");
  expect_rounded_once(got.v, exact.v, "v");
}

TEST(WidenedFlash, AllHeadsAndSamplesAtOnce) {
  expect_those_of_float64({3, 4, 2, 40, 40}, /*causal=*/true);
  expect_those_of_float64({2, 2, 2, 40, 30}, /*causal=*/false);
}

// A sample and kv head takes 16 x (2 x 4 + 8192) x 64 bytes, 8.4 MB: three fit.
TEST(WidenedFlash, InPieces) {
  ASSERT_EQ(kWidenedAttentionBytes / (16 * (2 * 4 + 8192) * 64), 3);
  expect_those_of_float64({4, 2, 1, 4, 8192}, /*causal=*/false);   // three samples, then one
  expect_those_of_float64({2, 10, 5, 4, 8192}, /*causal=*/false);  // three kv heads, then two
}

}  // namespace
}  // namespace tessera
