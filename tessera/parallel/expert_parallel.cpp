#include "tessera/parallel/expert_parallel.h"

#include <algorithm>

#include "tessera/nn/experts/moe.h"
#include "tessera/parallel/expert_parallel_dispatchers.h"
#include "tessera/parallel/weight_marks.h"

namespace tessera {
namespace {

// Counts of tokens that tp (slices of the residual stream), cp and the batch axes hold apart.
struct MeshStatistics : RouterStatistics {
  explicit MeshStatistics(const DeviceMesh& mesh)
      : tp(mesh["tp"]), cp(mesh["cp"]), loss(mesh["loss"]) {}
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

void partial_over_tp(const std::vector<Weight*>& weights) {
  for (Weight* weight : weights) mark_partial(*weight, "tp");
}

std::shared_ptr<NodeGroups> node_groups(const Config& config, const DeviceMesh& mesh) {
  const auto node = static_cast<int>(config.parallelism.npu_nums_per_device);
  auto groups = std::make_shared<NodeGroups>();
  groups->node = mesh.neighbours("ep", node);
  groups->between = mesh.between("ep", node);
  groups->all = mesh["ep"];
  return groups;
}

}  // namespace

void expert_parallel(Decoder& decoder, const Config& config, const DeviceMesh& mesh) {
  std::vector<MixtureOfExperts*> layers;
  for (DecoderLayer* layer : decoder.all_layers()) {
    if (auto* moe = dynamic_cast<MixtureOfExperts*>(layer->mlp.get())) layers.push_back(moe);
  }
  if (layers.empty()) return;
  const bool cut = mesh.size("ep") > 1;
  const bool sliced = mesh.size("tp") > 1;
  std::shared_ptr<NodeGroups> nodes;
  if (cut && config.parallelism.moe_token_dispatcher_type == "alltoall_deredundancy") {
    nodes = node_groups(config, mesh);
    nodes->say = mesh.rank() == 0 && decoder.embedding;
  }
  for (MixtureOfExperts* moe : layers) {
    moe->router_loss.statistics = std::make_unique<MeshStatistics>(mesh);
    if (sliced) {
      partial_over_tp({&moe->router->weight});
      if (moe->shared) partial_over_tp(moe->shared_call.weights());
    }
    const std::vector<Weight*> experts = moe->experts_call.weights();
    if (!cut) {
      if (sliced) partial_over_tp(experts);
      continue;
    }
    for (Weight* weight : experts) mark_cut(*weight, "ep", 0);
    if (nodes) {
      moe->dispatcher = std::make_unique<NodeDispatcher>(nodes);
    } else {
      moe->dispatcher = std::make_unique<AllToAllDispatcher>(mesh["ep"]);
    }
  }
}

std::pair<std::vector<Weight*>, std::vector<Weight*>> split_off_experts(
    const std::vector<Weight*>& weights) {
  std::pair<std::vector<Weight*>, std::vector<Weight*>> result;
  for (Weight* weight : weights) {
    const auto& cuts = weight->parts.front().cuts;
    const bool sparse =
        std::any_of(cuts.begin(), cuts.end(), [](const AxisCut& cut) { return cut.axis == "ep"; });
    (sparse ? result.second : result.first).push_back(weight);
  }
  return result;
}

}  // namespace tessera
