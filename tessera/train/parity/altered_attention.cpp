#include "tessera/train/parity/altered_attention.h"

#include <ATen/ATen.h>

#include "tessera/parallel/context/key_exchange.h"
#include "tessera/train/parity/altered_group.h"

namespace tessera {
namespace {

struct UnmergedKeys : KeyValues {
  UnmergedKeys(std::vector<VisibleBlock> own, std::shared_ptr<KeyValues> inner)
      : own(std::move(own)), inner(std::move(inner)) {}
  void forward(const at::Tensor& k, const at::Tensor& v, BlockAttention& attention) override {
    attention.attend(k, v, own);
    const at::Tensor lse_of_own = attention.lse().clone();
    attention.clear();
    inner->forward(k, v, attention);
    at::Tensor lse = attention.lse();
    lse.copy_(lse_of_own);
  }
  void backward(const AttentionSaved& saved, at::Tensor& dq, at::Tensor& dk,
                at::Tensor& dv) override {
    inner->backward(saved, dq, dk, dv);
  }
  std::vector<VisibleBlock> own;
  std::shared_ptr<KeyValues> inner;
};

struct UnmergedAttention : ContextAttention {
  explicit UnmergedAttention(const ContextAttention& right) : ContextAttention(right) {}
  std::shared_ptr<KeyValues> keys(KeyPlan plan, const at::Tensor& k) const override {
    const std::vector<VisibleBlock> own = plan.mine[static_cast<size_t>(outer.rank())];
    return std::make_shared<UnmergedKeys>(own, ContextAttention::keys(std::move(plan), k));
  }
};

}  // namespace

std::unique_ptr<CoreAttention> without_merged_lse(const ContextAttention& attention) {
  return std::make_unique<UnmergedAttention>(attention);
}

void lose_key_gradient(ContextAttention& attention) {
  const int next = (attention.outer.rank() + 1) % attention.outer.size();
  attention.outer = without_message(attention.outer, next, kRingKeyGradientTag);
}

}  // namespace tessera
