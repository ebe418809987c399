#include "tessera/nn/dropout.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/support/context_with_step.h"

namespace tessera {
namespace {

test::ContextWithStep context_of(int64_t tokens) {
  test::ContextWithStep context;
  context.own->seed = 42;
  context.own->number = 3;
  context.sample_ids = at::arange(tokens, at::kLong).div(8, "floor");
  context.in_sample = at::arange(tokens, at::kLong).remainder(8);
  context.residual_tokens = {0, tokens};
  return context;
}

TEST(Dropout, AMaskFollowsItsTokenIntoAnyLayout) {
  const auto whole = context_of(32);
  const at::Tensor mask = dropout_keep_mask(42, 3, 7, 0.3, whole.sample_ids, whole.in_sample, 21);
  const at::Tensor order = at::tensor({9, 30, 2, 2, 17}, at::kLong);
  const at::Tensor some = dropout_keep_mask(42, 3, 7, 0.3, whole.sample_ids.index_select(0, order),
                                            whole.in_sample.index_select(0, order), 21);
  EXPECT_TRUE(at::equal(some, mask.index_select(0, order)));
}

TEST(Dropout, SeedStepAndSiteGiveOtherMasks) {
  const auto c = context_of(32);
  const auto mask = [&c](uint64_t seed, int64_t step, int64_t site) {
    return dropout_keep_mask(seed, step, site, 0.5, c.sample_ids, c.in_sample, 64);
  };
  EXPECT_TRUE(at::equal(mask(1, 2, 3), mask(1, 2, 3)));
  EXPECT_FALSE(at::equal(mask(1, 2, 3), mask(2, 2, 3)));
  EXPECT_FALSE(at::equal(mask(1, 2, 3), mask(1, 3, 3)));
  EXPECT_FALSE(at::equal(mask(1, 2, 3), mask(1, 2, 4)));
}

TEST(Dropout, KeepsTheShareItShouldAndItsMean) {
  const auto c = context_of(256);
  const at::Tensor out = dropout(at::ones({256, 512}, at::kDouble), 0.25, 0, c);
  EXPECT_NEAR((out != 0).to(at::kDouble).mean().item<double>(), 0.75, 0.01);
  EXPECT_NEAR(out.max().item<double>(), 1 / 0.75, 1e-12);
}

TEST(Dropout, TheBackwardUsesTheSameMask) {
  const auto c = context_of(16);
  const at::Tensor x = at::ones({16, 8}, at::kDouble).requires_grad_(true);
  const at::Tensor out = dropout(x, 0.5, 1, c);
  EXPECT_TRUE(at::equal(torch::autograd::grad({out.sum()}, {x})[0], out));
}

TEST(Dropout, WorksOnTheResidualTokens) {
  auto c = context_of(16);
  const at::Tensor whole = dropout(at::ones({16, 8}, at::kDouble), 0.5, 1, c);
  c.residual_tokens = {4, 12};
  EXPECT_TRUE(at::equal(dropout(at::ones({8, 8}, at::kDouble), 0.5, 1, c), whole.narrow(0, 4, 8)));
}

}  // namespace
}  // namespace tessera
