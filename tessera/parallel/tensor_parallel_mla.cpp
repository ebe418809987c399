#include "tessera/parallel/tensor_parallel_mla.h"

#include "tessera/comm/regions.h"
#include "tessera/parallel/tensor_parallel_layers.h"
#include "tessera/parallel/weight_marks.h"

namespace tessera {
namespace {

struct GatherOverTp : SequenceGather {
  explicit GatherOverTp(ProcessGroup group) : group(std::move(group)) {}
  at::Tensor forward(const at::Tensor& x_TC) override {
    return gather_from_sp(x_TC, x_TC.size(0) * group.size(), group);
  }
  ProcessGroup group;
};

}  // namespace

void latent_attention_over_tp(LatentAttention& attention, const ProcessGroup& tp, bool overlap) {
  mark_partial(attention.down_proj->weight, "tp");
  mark_partial(attention.down_proj->bias, "tp");
  if (attention.q_norm) mark_partial(attention.q_norm->weight, "tp");
  if (attention.kv_norm) mark_partial(attention.kv_norm->weight, "tp");
  attention.gather = std::make_unique<GatherOverTp>(tp);
  mark_cut(attention.q_up->weight, "tp", 0);
  mark_cut(attention.kv_up->weight, "tp", 0);
  mark_cut(attention.o_proj->weight, "tp", 1);
  mark_partial(attention.o_proj->bias, "tp");
  attention.o_proj = std::make_unique<RowLinear>(std::move(*attention.o_proj), tp, overlap);
}

}  // namespace tessera
