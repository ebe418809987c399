#include "tessera/nn/attention/max_logits.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "tessera/nn/seams.h"

namespace tessera {
namespace {

// scale x q k^T with what is later or of another document left out, and its largest by head.
at::Tensor by_formula(const at::Tensor& q_TND, const at::Tensor& k_TMD,
                      const std::vector<int64_t>& document_of_token, double scale) {
  const int64_t tokens = q_TND.size(0), heads = q_TND.size(1);
  at::Tensor largest = at::full({heads}, -std::numeric_limits<double>::infinity(), at::kDouble);
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t i = 0; i < tokens; ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        if (document_of_token[static_cast<size_t>(i)] != document_of_token[static_cast<size_t>(j)])
          continue;
        const int64_t kv_head = head / (heads / k_TMD.size(1));
        const double logit = scale * q_TND[i][head].dot(k_TMD[j][kv_head]).item<double>();
        largest[head] = std::max(largest[head].item<double>(), logit);
      }
    }
  }
  return largest;
}

struct Watched {
  Sinks sinks;
  StepContext step;
  LayerContext context;
  explicit Watched(bool wants) {
    step.sinks = &sinks;
    step.wants_max_logits = wants;
    context.step = &step;
    context.rows = 2;
    context.seq_length = 13;
    context.micro_batch = 3;
    context.document_ends = {{5, 13}, {13}};
  }
};

void attend(CoreAttention& core, const LayerContext& context, const at::Tensor& q,
            const at::Tensor& k) {
  const auto call = core.begin(context);
  call->offer(AttentionInput::kQuery, q);
  call->offer(AttentionInput::kKey, k);
  call->offer(AttentionInput::kValue, k);
  call->attend();
}

TEST(MaxLogits, AreTheLargestOfWhatIsSeen) {
  const at::Tensor q = at::randn({26, 4, 8}, at::kDouble), k = at::randn({26, 2, 8}, at::kDouble);
  CoreAttention core;
  core.scale = 0.7;
  core.layer = 5;
  Watched watched(true);
  attend(core, watched.context, q, k);
  const at::Tensor& largest = watched.sinks.max_logits.at({5, 3});
  std::vector<int64_t> documents(5, 0);
  documents.resize(13, 1);
  documents.resize(26, 2);
  EXPECT_TRUE(at::allclose(largest, by_formula(q, k, documents, 0.7), 1e-12, 1e-12)) << largest;
}

TEST(MaxLogits, AreMadeOnlyWhenAskedFor) {
  const at::Tensor q = at::randn({26, 4, 8}, at::kDouble);
  CoreAttention core;
  core.scale = 1;
  Watched watched(false);
  attend(core, watched.context, q, q);
  EXPECT_TRUE(watched.sinks.max_logits.empty());
  Watched again(true);
  again.context.recompute = true;
  attend(core, again.context, q, q);
  EXPECT_TRUE(again.sinks.max_logits.empty()) << "a run that is repeated says nothing twice";
}

TEST(MaxLogits, OfPartsOfHeads) {
  Watched watched(true);
  record_max_logits(at::tensor({3.0}), 1, 3, 0, watched.context);
  record_max_logits(at::tensor({2.0, 5.0}), 1, 3, 0, watched.context);
  const at::Tensor all = watched.sinks.max_logits.at({0, 3});
  EXPECT_EQ(all[1].item<double>(), 3.0);
  EXPECT_EQ(all[2].item<double>(), 5.0);
  EXPECT_EQ(all[0].item<double>(), -std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace tessera
