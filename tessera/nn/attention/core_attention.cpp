#include <ATen/ATen.h>

#include "tessera/base/error.h"
#include "tessera/nn/attention/document_plan.h"
#include "tessera/nn/attention/local_attention.h"
#include "tessera/nn/seams.h"

namespace tessera {

namespace {

class LocalCall : public AttentionCall {
 public:
  LocalCall(const LayerContext& context, double scale) : context_(context), scale_(scale) {}

  void offer(AttentionInput which, at::Tensor x_TND) override {
    inputs_[static_cast<size_t>(which)] = std::move(x_TND);
  }

  at::Tensor attend() override {
    const auto& [q, k, v] = inputs_;
    TESSERA_CHECK(q.defined() && k.defined() && v.defined(), "attend() before all were offered");
    TESSERA_CHECK_EQ(q.size(0), context_.rows * context_.seq_length,
                     "local attention needs whole samples");
    return local_attention(q, k, v, plan_documents(context_), scale_);
  }

 private:
  const LayerContext& context_;
  double scale_;
  std::array<at::Tensor, 3> inputs_;
};

}  // namespace

std::unique_ptr<AttentionCall> CoreAttention::begin(const LayerContext& context) {
  return std::make_unique<LocalCall>(context, scale);
}

}  // namespace tessera
