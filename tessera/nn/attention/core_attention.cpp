#include <ATen/ATen.h>

#include "tessera/base/error.h"
#include "tessera/nn/attention/local_attention.h"
#include "tessera/nn/seams.h"

namespace tessera {

namespace {

class LocalCall : public AttentionCall {
 public:
  LocalCall(const LayerContext& context, AttentionScores scores)
      : context_(context), scores_(std::move(scores)) {}

  void offer(AttentionInput which, at::Tensor x_TND) override {
    inputs_[static_cast<size_t>(which)] = std::move(x_TND);
  }

  at::Tensor attend() override {
    const auto& [q, k, v] = inputs_;
    TESSERA_CHECK(q.defined() && k.defined() && v.defined(), "attend() before all were offered");
    return local_attention(q, k, v, context_, scores_);
  }

 private:
  const LayerContext& context_;
  AttentionScores scores_;
  std::array<at::Tensor, 3> inputs_;
};

}  // namespace

std::unique_ptr<AttentionCall> CoreAttention::begin(const LayerContext& context) {
  return std::make_unique<LocalCall>(context, scores());
}

}  // namespace tessera
