#include "tessera/parallel/experts/expert_parallel.h"

#include "tessera/nn/experts/moe.h"
#include "tessera/parallel/experts/expert_parallel_dispatchers.h"

namespace tessera {
namespace {

// Counts of tokens that tp (slices of the residual stream), cp and the batch axes hold apart.
struct MeshStatistics : RouterStatistics {
  explicit MeshStatistics(const DeviceMesh& mesh)
      : tp(mesh[Axis::kTp]), cp(mesh[Axis::kCp]), loss(mesh[Axis::kLoss]) {}
  at::Tensor over_samples(at::Tensor counts) override {
    tp.all_reduce({counts}).wait();
    cp.all_reduce({counts}).wait();
    return counts;
  }
  at::Tensor over_batch(at::Tensor counts) override {
    tp.all_reduce({counts}).wait();
    loss.all_reduce({counts}).wait();
    return counts;
  }
  ProcessGroup tp, cp, loss;
};

std::shared_ptr<NodeGroups> node_groups(const Config& config, const DeviceMesh& mesh) {
  const auto node = static_cast<int>(config.parallelism.npu_nums_per_device);
  auto groups = std::make_shared<NodeGroups>();
  groups->node = mesh.neighbours(Axis::kEp, node);
  groups->between = mesh.between(Axis::kEp, node);
  groups->all = mesh[Axis::kEp];
  return groups;
}

}  // namespace

void expert_parallel(Decoder& decoder, const Config& config, const DeviceMesh& mesh) {
  std::vector<MixtureOfExperts*> layers;
  for (DecoderLayer* layer : decoder.all_layers()) {
    if (auto* moe = dynamic_cast<MixtureOfExperts*>(layer->mlp.get())) layers.push_back(moe);
  }
  if (layers.empty()) return;
  const bool cut = mesh.size(Axis::kEp) > 1;
  std::shared_ptr<NodeGroups> nodes;
  if (cut && config.parallelism.moe_token_dispatcher_type == "alltoall_deredundancy") {
    nodes = node_groups(config, mesh);
    nodes->say = mesh.rank() == 0 && decoder.embedding;
  }
  for (MixtureOfExperts* moe : layers) {
    moe->router_loss.statistics = std::make_unique<MeshStatistics>(mesh);
    if (!cut) continue;
    if (nodes) {
      moe->dispatcher = std::make_unique<NodeDispatcher>(nodes);
    } else {
      moe->dispatcher = std::make_unique<AllToAllDispatcher>(mesh[Axis::kEp]);
    }
  }
}

}  // namespace tessera
