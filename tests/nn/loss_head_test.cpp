#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "tessera/base/error.h"
#include "tessera/nn/kernels/cross_entropy.h"
#include "tessera/nn/seams.h"
#include "tests/nn/gradient_check.h"

namespace tessera {
namespace {

constexpr int64_t kTokens = 11;
constexpr int64_t kVocabulary = 29;
constexpr int64_t kHidden = 6;

struct Fixture {
  Weight weight;
  LossHead head;
  at::Tensor x = sample_values({kTokens, kHidden}, 1).requires_grad_(true);
  at::Tensor labels = at::arange(kTokens, at::kLong) * 5 % kVocabulary;
  at::Tensor mask = at::ones({kTokens}, at::kFloat);

  Fixture() {
    weight.value = sample_values({kVocabulary, kHidden}, 2).requires_grad_(true);
    head.weight = &weight;
    mask[3] = 0;
  }
};

at::Tensor plain_loss(const Fixture& f, double scale) {
  const at::Tensor logp = at::linear(f.x, f.weight.value).log_softmax(1);
  const at::Tensor picked = logp.gather(1, f.labels.clamp_min(0).unsqueeze(1)).squeeze(1);
  return -(picked * f.mask).sum() * scale;
}

TEST(LossHead, EqualsThePlainFormulaInAnyNumberOfChunks) {
  for (const int64_t chunks : {0, 1, 2, 3, 11, 40}) {
    Fixture f;
    f.mask[7] = 0;  // a label that does not count may be any number
    f.labels[7] = -100;
    f.head.chunks = chunks;
    const at::Tensor got = f.head.loss(f.x, f.labels, f.mask, 0.25);
    const at::Tensor want = plain_loss(f, 0.25);
    EXPECT_NEAR(got.item<double>(), want.item<double>(), 1e-13) << chunks;
    // A gradient from above that is not one.
    const auto a = torch::autograd::grad({got * 3}, {f.x, f.weight.value});
    const auto b = torch::autograd::grad({want * 3}, {f.x, f.weight.value});
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_LT((a[i] - b[i]).abs().max().item<double>(), 1e-13) << chunks << " " << i;
    }
  }
}

TEST(LossHead, Gradients) {
  for (const int64_t chunks : {1, 4}) {
    Fixture f;
    expect_gradients_by_differences(
        [&f, chunks](const std::vector<at::Tensor>& in) {
          Weight weight;
          weight.value = in[1];
          LossHead head;
          head.weight = &weight;
          head.chunks = chunks;
          return head.loss(in[0], f.labels, f.mask, 0.5).reshape({1});
        },
        {f.x.detach(), f.weight.value.detach()});
  }
}

TEST(LossHead, OnlyWhatNeedsAGradientGetsOne) {
  for (const int64_t chunks : {1, 4}) {
    Fixture f;
    f.head.chunks = chunks;
    const at::Tensor fixed = f.x.detach();
    const at::Tensor loss = f.head.loss(fixed, f.labels, f.mask, 1.0);
    const auto got = torch::autograd::grad({loss}, {f.weight.value});
    const auto want = torch::autograd::grad({plain_loss(f, 1.0)}, {f.weight.value});
    EXPECT_LT((got[0] - want[0]).abs().max().item<double>(), 1e-13);
    const at::NoGradGuard no_grad;
    EXPECT_FALSE(f.head.loss(f.x, f.labels, f.mask, 1.0).requires_grad());
  }
}

TEST(LossHead, Bfloat16HasASoftmaxInFloat32) {
  for (const int64_t chunks : {1, 3}) {
    Fixture f;
    const auto run = [&f, chunks](at::ScalarType type) {
      Weight weight;
      weight.value = f.weight.value.detach().to(at::kBFloat16).to(type).requires_grad_(true);
      const at::Tensor x = f.x.detach().to(at::kBFloat16).to(type).requires_grad_(true);
      LossHead head;
      head.weight = &weight;
      head.chunks = chunks;
      const at::Tensor loss = head.loss(x, f.labels, f.mask, 0.5);
      auto gradients = torch::autograd::grad({loss}, {x, weight.value});
      gradients.push_back(loss);
      return gradients;
    };
    const auto narrow = run(at::kBFloat16);
    const auto wide = run(at::kDouble);
    EXPECT_EQ(narrow[2].scalar_type(), at::kFloat);
    EXPECT_EQ(narrow[0].scalar_type(), at::kBFloat16);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_LT(((narrow[i].to(at::kDouble) - wide[i]).norm() / wide[i].norm()).item<double>(),
                1e-2)
          << i;
    }
  }
}

// Zero logits: the loss is ln(vocabulary) exactly, whatever the labels.
TEST(LossHead, ZeroWeightsGiveTheLogarithmOfTheVocabulary) {
  Weight weight;
  weight.value = at::zeros({512, kHidden}, at::kFloat);
  LossHead head;
  head.weight = &weight;
  const at::Tensor labels = at::arange(kTokens, at::kLong);
  const double loss =
      head.loss(at::ones({kTokens, kHidden}), labels, at::ones({kTokens}), 1.0 / kTokens)
          .item<double>();
  EXPECT_NEAR(loss, std::log(512.0), 1e-6);
}

TEST(LossHead, MaskedLabelsAreNotLookedAt) {
  Fixture f;
  f.labels[3] = 1'000'000;  // masked
  EXPECT_TRUE(f.head.loss(f.x, f.labels, f.mask, 1.0).isfinite().item<bool>());
  f.labels[4] = kVocabulary;  // not masked
  EXPECT_THROW(f.head.loss(f.x, f.labels, f.mask, 1.0), InternalError);
}

TEST(LossHead, AllMaskedOrNoTokens) {
  Fixture f;
  const at::Tensor none = f.head.loss(f.x, f.labels, at::zeros({kTokens}), 1.0);
  EXPECT_EQ(none.item<double>(), 0.0);
  const auto gradients = torch::autograd::grad({none}, {f.x, f.weight.value});
  EXPECT_EQ(gradients[0].abs().max().item<double>(), 0.0);
  EXPECT_EQ(gradients[1].abs().max().item<double>(), 0.0);
  const at::Tensor empty =
      f.head.loss(f.x.narrow(0, 0, 0), f.labels.narrow(0, 0, 0), f.mask.narrow(0, 0, 0), 1.0);
  EXPECT_EQ(empty.item<double>(), 0.0);
}

TEST(CrossEntropy, LargeLogitsDoNotOverflow) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    at::Tensor logits = at::tensor({3e4, -3e4, 0.0, 2.9e4}).reshape({1, 4}).to(type);
    const double loss = cross_entropy_(logits, at::tensor({0}, at::kLong),
                                       at::ones({1}, at::kDouble), /*with_gradient=*/true);
    EXPECT_NEAR(loss, 0, 1e-6);
    EXPECT_TRUE(logits.isfinite().all().item<bool>());
  }
}

}  // namespace
}  // namespace tessera
