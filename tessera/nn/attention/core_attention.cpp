#include <ATen/ATen.h>

#include "tessera/base/error.h"
#include "tessera/nn/attention/document_plan.h"
#include "tessera/nn/attention/local_attention.h"
#include "tessera/nn/attention/max_logits.h"
#include "tessera/nn/seams.h"

namespace tessera {

namespace {

class LocalCall : public AttentionCall {
 public:
  LocalCall(const LayerContext& context, double scale, int64_t layer)
      : context_(context), scale_(scale), layer_(layer) {}

  void offer(AttentionInput which, at::Tensor x_TND) override {
    inputs_[static_cast<size_t>(which)] = std::move(x_TND);
  }

  at::Tensor attend() override {
    const auto& [q, k, v] = inputs_;
    TESSERA_CHECK(q.defined() && k.defined() && v.defined(), "attend() before all were offered");
    TESSERA_CHECK_EQ(q.size(0), context_.rows * context_.seq_length,
                     "local attention needs whole samples");
    const std::vector<DocumentGroup> documents = plan_documents(context_);
    if (wants_max_logits(context_)) record_largest(documents);
    return local_attention(q, k, v, documents, scale_);
  }

 private:
  void record_largest(const std::vector<DocumentGroup>& documents) const {
    const int64_t heads = inputs_[0].size(1);
    for (const DocumentGroup& group : documents) {
      const auto document = [&](size_t input, int64_t start) {
        return inputs_[input].narrow(0, start, group.length).transpose(0, 1).unsqueeze(0);
      };
      for (const int64_t start : group.starts) {
        const at::Tensor largest_N =
            largest_logits(document(0, start), document(1, start), /*causal=*/true, scale_);
        record_max_logits(largest_N, 0, heads, layer_, context_);
      }
    }
  }

  const LayerContext& context_;
  double scale_;
  int64_t layer_;
  std::array<at::Tensor, 3> inputs_;
};

}  // namespace

std::unique_ptr<AttentionCall> CoreAttention::begin(const LayerContext& context) {
  return std::make_unique<LocalCall>(context, scale, layer);
}

}  // namespace tessera
