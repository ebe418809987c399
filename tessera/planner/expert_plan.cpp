#include "tessera/planner/expert_plan.h"

#include <algorithm>

namespace tessera {
namespace {

int64_t expert_layers(const ModelConfig& model, const StagePlan& stage) {
  int64_t layers = 0;
  for (const ChunkPlan& chunk : stage.chunks) {
    for (int64_t layer = chunk.first_layer; layer <= chunk.last_layer; ++layer) {
      layers += model.is_moe_layer(layer) ? 1 : 0;
    }
    if (!chunk.head) continue;
    for (int64_t depth = 0; depth < model.num_nextn_predict_layers; ++depth) {
      layers += model.is_moe_layer(model.num_hidden_layers + depth) ? 1 : 0;
    }
  }
  return layers;
}

// How likely one of k different experts out of all is among `some` of them.
double any_of(int64_t experts, int64_t some, int64_t k) {
  double none = 1.0;
  for (int64_t j = 0; j < k; ++j) {
    none *= static_cast<double>(std::max<int64_t>(0, experts - some - j)) /
            static_cast<double>(experts - j);
  }
  return 1.0 - none;
}

}  // namespace

std::optional<ExpertPlan> plan_experts(const Config& config, const ParallelDims& dims,
                                       const BatchPlan& batch,
                                       const std::vector<StagePlan>& stages) {
  const ModelConfig& model = config.model;
  if (dims.ep == 1) return std::nullopt;
  ExpertPlan plan;
  plan.experts = model.n_routed_experts;
  plan.experts_of_rank = model.n_routed_experts / dims.ep;
  for (const StagePlan& stage : stages) {
    plan.layers = std::max(plan.layers, expert_layers(model, stage));
  }
  const int64_t node = std::min(dims.ep, config.parallelism.npu_nums_per_device);
  plan.nodes = (dims.ep + node - 1) / node;

  // There and back, forward and backward.
  constexpr double kCrossings = 4;
  const double tokens = static_cast<double>(batch.micro_batches * batch.local_batch *
                                            model.seq_length / (dims.cp * dims.tp));
  const double row = static_cast<double>(model.hidden_size * size_of(model.compute_dtype));
  const double of_token = kCrossings * tokens * row * static_cast<double>(plan.layers);
  const auto k = static_cast<double>(model.num_experts_per_tok);
  const auto ranks = static_cast<double>(dims.ep);
  const auto in_node = static_cast<double>(node);
  const auto bytes = [&](double rows_of_token) {
    return static_cast<int64_t>(of_token * rows_of_token);
  };
  plan.all_to_all = {bytes(k * (in_node - 1) / ranks), bytes(k * (ranks - in_node) / ranks)};
  if (dims.ep % node != 0) return plan;
  const double others = static_cast<double>(plan.nodes - 1);
  const double needed = any_of(model.n_routed_experts, model.n_routed_experts / plan.nodes,
                               model.num_experts_per_tok);
  plan.by_node = {bytes(k * (in_node - 1) / in_node), bytes(others * needed)};
  return plan;
}

}  // namespace tessera
