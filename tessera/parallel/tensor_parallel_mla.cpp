#include "tessera/parallel/tensor_parallel_mla.h"

#include "tessera/dist/regions.h"
#include "tessera/parallel/tensor_parallel_layers.h"

namespace tessera {
namespace {

struct GatherOverTp : SequenceGather {
  explicit GatherOverTp(ProcessGroup group) : group(std::move(group)) {}
  at::Tensor forward(const at::Tensor& x_TC) override {
    return gather_from_sp(x_TC, x_TC.size(0) * group.size(), group);
  }
  ProcessGroup group;
};

// Whole on every rank, which computes with its own tokens: the gradient is a partial sum.
void replicate(Weight& weight) {
  for (ParameterPart& part : weight.parts) part.partial.emplace_back("tp");
}

void cut(Weight& weight, int dim) {
  for (ParameterPart& part : weight.parts) part.cuts.push_back({"tp", dim, 1});
}

}  // namespace

void latent_attention_over_tp(LatentAttention& attention, const ProcessGroup& tp, bool overlap) {
  replicate(attention.down_proj->weight);
  replicate(attention.down_proj->bias);
  if (attention.q_norm) replicate(attention.q_norm->weight);
  if (attention.kv_norm) replicate(attention.kv_norm->weight);
  attention.gather = std::make_unique<GatherOverTp>(tp);
  cut(attention.q_up->weight, 0);
  cut(attention.kv_up->weight, 0);
  cut(attention.o_proj->weight, 1);
  replicate(attention.o_proj->bias);
  attention.o_proj = std::make_unique<RowLinear>(std::move(*attention.o_proj), tp, overlap);
}

}  // namespace tessera
