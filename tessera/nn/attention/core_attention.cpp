#include <ATen/ATen.h>

#include "tessera/base/error.h"
#include "tessera/nn/attention/local_attention.h"
#include "tessera/nn/attention/max_logits.h"
#include "tessera/nn/seams.h"

namespace tessera {

namespace {

class LocalCall : public AttentionCall {
 public:
  LocalCall(const LayerContext& context, AttentionScores scores, int64_t layer)
      : context_(context), scores_(std::move(scores)), layer_(layer) {}

  void offer(AttentionInput which, at::Tensor x_TND) override {
    inputs_[static_cast<size_t>(which)] = std::move(x_TND);
  }

  at::Tensor attend() override {
    const auto& [q, k, v] = inputs_;
    TESSERA_CHECK(q.defined() && k.defined() && v.defined(), "attend() before all were offered");
    at::Tensor largest;
    const bool wanted = wants_max_logits(context_);
    const at::Tensor out = local_attention(q, k, v, context_, scores_, wanted ? &largest : nullptr);
    if (wanted) record_max_logits(largest.amax(0), 0, q.size(1), layer_, context_);
    return out;
  }

 private:
  const LayerContext& context_;
  AttentionScores scores_;
  int64_t layer_;
  std::array<at::Tensor, 3> inputs_;
};

}  // namespace

std::unique_ptr<AttentionCall> CoreAttention::begin(const LayerContext& context) {
  return std::make_unique<LocalCall>(context, scores(), layer);
}

}  // namespace tessera
