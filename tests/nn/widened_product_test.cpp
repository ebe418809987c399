// Products of bfloat16 matrices in float32: each element is the exact one, rounded once.

#include "tessera/nn/kernels/widened_product.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/nn/gradient_check.h"

namespace tessera {
namespace {

at::Tensor narrow_values(const std::vector<int64_t>& sizes, double seed) {
  return sample_values(sizes, seed).to(at::kBFloat16);
}

at::Tensor exact(const at::Tensor& a, const at::Tensor& b) {
  return a.to(at::kDouble).mm(b.to(at::kDouble));
}

// Rounding to eight bits errs by no more than 2^-8 of the value, sums in float32 by far less.
void expect_rounded_once(const at::Tensor& got, const at::Tensor& exact_result) {
  ASSERT_EQ(got.scalar_type(), at::kBFloat16);
  const at::Tensor error = (got.to(at::kDouble) - exact_result).abs();
  const at::Tensor allowed = exact_result.abs() / 256 + 2e-4;
  EXPECT_TRUE(error.le(allowed).all().item<bool>()) << error.sub(allowed).max().item<double>();
}

// Fewer rows, columns and inner elements than a block has, and more, with a rest.
TEST(WidenedProduct, IsRoundedOnceAtItsEnd) {
  for (const int64_t rows : {1, 7, 300}) {
    for (const int64_t inner : {1, 67, 1100}) {
      for (const int64_t columns : {1, 33, 520}) {
        SCOPED_TRACE(std::to_string(rows) + " " + std::to_string(inner) + " " +
                     std::to_string(columns));
        const at::Tensor a = narrow_values({rows, inner}, 1),
                         b = narrow_values({inner, columns}, 2);
        const at::Tensor out = at::empty({rows, columns}, a.options());
        widened_product(out, a, b, /*add=*/false);
        expect_rounded_once(out, exact(a, b));

        const at::Tensor sum = narrow_values({rows, columns}, 3);
        const at::Tensor expected = exact(a, b) + sum.to(at::kDouble);
        widened_product(sum, a, b, /*add=*/true);
        expect_rounded_once(sum, expected);
      }
    }
  }
}

TEST(WidenedProduct, TakesViewsOfAnyStrides) {
  const at::Tensor a = narrow_values({600, 280}, 1).t();              // lies by columns
  const at::Tensor b = narrow_values({600, 50}, 2).narrow(1, 3, 40);  // part of wider rows
  const at::Tensor around = at::zeros({280, 60}, a.options());
  widened_product(around.narrow(1, 10, 40), a, b, /*add=*/false);
  expect_rounded_once(around.narrow(1, 10, 40), exact(a, b));
  EXPECT_EQ(around.narrow(1, 0, 10).abs().max().item<double>(), 0.0);
  EXPECT_EQ(around.narrow(1, 50, 10).abs().max().item<double>(), 0.0);

  const at::Tensor every_other = narrow_values({40, 90}, 3).slice(1, 0, 90, 2);  // [40, 45]
  const at::Tensor out = at::empty({280, 45}, a.options());
  widened_product(out, around.narrow(1, 10, 40), every_other, /*add=*/false);
  expect_rounded_once(out, exact(around.narrow(1, 10, 40), every_other));
}

TEST(WidenedProduct, OfNothing) {
  const at::Tensor a = at::empty({5, 0}, at::kBFloat16), b = at::empty({0, 4}, at::kBFloat16);
  const at::Tensor out = at::ones({5, 4}, at::kBFloat16);
  widened_product(out, a, b, /*add=*/true);
  EXPECT_EQ(out.sum().item<double>(), 20.0);
  widened_product(out, a, b, /*add=*/false);
  EXPECT_EQ(out.sum().item<double>(), 0.0);
  widened_product(at::empty({0, 4}, at::kBFloat16), at::empty({0, 3}, at::kBFloat16),
                  at::empty({3, 4}, at::kBFloat16), /*add=*/false);
}

// A leaf that records gradients is multiplied like any other matrix, in every thread.
TEST(WidenedProduct, RecordsNothing) {
  const at::Tensor a = narrow_values({300, 20}, 1);
  const at::Tensor b = narrow_values({20, 600}, 2).requires_grad_(true);
  const at::Tensor out = at::empty({300, 600}, a.options());
  widened_product(out, a, b, /*add=*/false);
  EXPECT_FALSE(out.requires_grad());
  expect_rounded_once(out, exact(a, b.detach()));
}

}  // namespace
}  // namespace tessera
