#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tessera/nn/seams.h"
#include "tests/nn/gradient_check.h"

namespace tessera {
namespace {

TEST(Embedding, LooksUpAndSumsTheGradientsOfOneRow) {
  Embedding embedding;
  embedding.weight.value = sample_values({5, 3}, 1).requires_grad_(true);
  const at::Tensor ids = at::tensor({4, 0, 4, 4}, at::kLong);
  const at::Tensor out = embedding.forward(ids);
  EXPECT_TRUE(at::equal(out, embedding.weight.value.index_select(0, ids)));
  const at::Tensor above = sample_values({4, 3}, 2);
  const auto got = torch::autograd::grad({out}, {embedding.weight.value}, {above})[0];
  EXPECT_TRUE(at::equal(got[0], above[1]));
  EXPECT_TRUE(at::equal(got[3], at::zeros({3}, at::kDouble)));
  EXPECT_LT((got[4] - (above[0] + above[2] + above[3])).abs().max().item<double>(), 1e-15);
}

// 4096 gradients of 1/256 into one row: bfloat16 would stop at 1.
TEST(Embedding, NarrowGradientsAreSummedInFloat32) {
  Embedding embedding;
  embedding.weight.value = at::zeros({2, 8}, at::kBFloat16).requires_grad_(true);
  const at::Tensor out = embedding.forward(at::zeros({4096}, at::kLong));
  const auto got = torch::autograd::grad({out}, {embedding.weight.value},
                                         {at::full({4096, 8}, 1.0 / 256, at::kBFloat16)})[0];
  EXPECT_EQ(got.scalar_type(), at::kBFloat16);
  EXPECT_EQ(got[0][0].item<double>(), 16.0);
}

}  // namespace
}  // namespace tessera
