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

void expect_close(const at::Tensor& got, const at::Tensor& exact, const char* what) {
  ASSERT_EQ(got.scalar_type(), at::kBFloat16);
  ASSERT_EQ(got.sizes(), exact.sizes());
  const double error = (got.to(at::kDouble) - exact).abs().max().item<double>();
  EXPECT_LT(error, 0.01 * exact.abs().max().item<double>()) << what;
}

void expect_those_of_float64(int64_t samples, int64_t q_heads, int64_t kv_heads, int64_t length,
                             int64_t size, bool causal) {
  const at::Tensor q = heads(samples, q_heads, length, size, 1);
  const at::Tensor k = heads(samples, kv_heads, length, size, 2);
  const at::Tensor v = heads(samples, kv_heads, length, size, 3);
  const at::Tensor grad_out = heads(samples, q_heads, length, size, 4);
  const double scale = 0.3;
  const auto wide = [](const at::Tensor& x) { return x.to(at::kDouble); };
  const FlashResult result = flash_forward(wide(q), wide(k), wide(v), causal, scale);
  const FlashGrads exact = flash_backward(wide(grad_out), wide(q), wide(k), wide(v), result.out,
                                          result.lse, causal, scale);
  const FlashGrads got = widened_flash_backward(grad_out, q, k, v, result.out.to(at::kBFloat16),
                                                result.lse.to(at::kFloat), causal, scale);
  expect_close(got.q, exact.q, "q");
  expect_close(got.k, exact.k, "k");
  expect_close(got.v, exact.v, "v");
}

TEST(WidenedFlash, AllHeadsAndSamplesAtOnce) {
  expect_those_of_float64(3, 4, 2, 40, 8, /*causal=*/true);
  expect_those_of_float64(2, 2, 2, 40, 8, /*causal=*/false);
}

// A sample and kv head takes 16 x (2 + 1) x 1024 x 64 bytes, 3 MiB: ten fit.
TEST(WidenedFlash, InPieces) {
  ASSERT_EQ(kWidenedAttentionBytes / (16 * 3 * 1024 * 64), 10);
  expect_those_of_float64(3, 8, 4, 1024, 64, /*causal=*/false);   // two samples, then one
  expect_those_of_float64(1, 24, 12, 1024, 64, /*causal=*/true);  // ten kv heads, then two
}

}  // namespace
}  // namespace tessera
