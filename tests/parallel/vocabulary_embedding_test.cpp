#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tessera/base/box.h"
#include "tessera/comm/threads/run_ranks.h"
#include "tessera/parallel/tensor/tensor_parallel_layers.h"

namespace tessera::test {
namespace {

constexpr int64_t kVocabulary = 5, kHidden = 3, kTokens = 2048;

Embedding whole_embedding(at::ScalarType type) {
  Embedding embedding;
  ParameterPart part;
  part.shape = {kVocabulary, kHidden};
  embedding.weight.parts = {part};
  embedding.weight.value =
      at::sin(at::arange(kVocabulary * kHidden, at::kDouble)).view({kVocabulary, kHidden}).to(type);
  return embedding;
}

// Tokens 1 and 4, one of each rank's rows, 1020 and 1018 times; the others in between.
at::Tensor ids() {
  at::Tensor ids_T = at::where(at::arange(kTokens).remainder(2) == 0, 1, 4);
  ids_T.slice(0, 0, 10).copy_(at::arange(10).remainder(kVocabulary));
  return ids_T;
}

struct Result {
  at::Tensor out_TH;
  at::Tensor gradient_VH;
};

Result look_up(Embedding& embedding, const Range& tokens) {
  embedding.weight.value.set_requires_grad(true);
  const at::Tensor out = embedding.forward(ids());
  const at::Tensor above = at::full({kTokens, kHidden}, 1.0 / 256, out.options());
  const at::Tensor gradient =
      torch::autograd::grad({out}, {embedding.weight.value}, {above.slice(0, 0, tokens.size())},
                            std::nullopt, false, /*allow_unused=*/true)[0];
  return {out.detach(), gradient};
}

// A token that occurs a thousand times: sums in bfloat16 stop at 1, those of one rank go on to 4.
TEST(VocabularyEmbedding, GradientsOfACutVocabularyAreThoseOfOneRank) {
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat, at::kDouble}) {
    Embedding plain = whole_embedding(type);
    const Result whole = look_up(plain, {0, kTokens});
    for (const int ranks : {2, 4}) {
      run_ranks(ranks, [&](const ProcessGroup& tp) {
        const Range rows = part_of(kVocabulary, ranks, tp.rank());
        const Range tokens = part_of(kTokens, ranks, tp.rank());
        Embedding part = whole_embedding(type);
        part.weight.value = part.weight.value.slice(0, rows.begin, rows.end).clone();
        VocabularyEmbedding embedding(std::move(part), tp);
        const Result cut = look_up(embedding, tokens);
        EXPECT_TRUE(at::equal(cut.out_TH, whole.out_TH.slice(0, tokens.begin, tokens.end)));
        EXPECT_TRUE(at::equal(cut.gradient_VH, whole.gradient_VH.slice(0, rows.begin, rows.end)))
            << type << ", rank " << tp.rank() << ":\n"
            << cut.gradient_VH;
      });
    }
  }
}

// Over micro-batches the sum goes on in place where the owner of the weights keeps it.
TEST(VocabularyEmbedding, AddsToTheSumOverMicroBatches) {
  Embedding plain = whole_embedding(at::kFloat);
  const Result whole = look_up(plain, {0, kTokens});
  run_ranks(2, [&](const ProcessGroup& tp) {
    const Range rows = part_of(kVocabulary, 2, tp.rank());
    Embedding part = whole_embedding(at::kFloat);
    part.weight.value = part.weight.value.slice(0, rows.begin, rows.end).clone();
    VocabularyEmbedding embedding(std::move(part), tp);
    at::Tensor sum = at::ones({rows.size(), kHidden});
    embedding.weight.value.mutable_grad() = sum;
    const Result cut = look_up(embedding, part_of(kTokens, 2, tp.rank()));
    EXPECT_FALSE(cut.gradient_VH.defined());
    EXPECT_TRUE(at::allclose(sum - 1, whole.gradient_VH.slice(0, rows.begin, rows.end)));
  });
}

}  // namespace
}  // namespace tessera::test
