#include "tessera/parallel/tensor/tensor_parallel_mla.h"

#include "tessera/comm/regions.h"
#include "tessera/parallel/tensor/tensor_parallel_layers.h"

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
  attention.gather = std::make_unique<GatherOverTp>(tp);
  attention.o_proj = std::make_unique<RowLinear>(std::move(*attention.o_proj), tp, overlap);
}

}  // namespace tessera
