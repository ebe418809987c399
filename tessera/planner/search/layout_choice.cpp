#include "tessera/planner/search/layout_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/layout/axis.h"
#include "tessera/layout/layer_ranges.h"
#include "tessera/layout/placement.h"
#include "tessera/schedule/balance.h"

namespace tessera {

Config with_layout(const Config& config, const LayoutChoice& choice, double head_layers,
                   int64_t node_ranks) {
  Config made = config;
  ParallelismConfig& p = made.parallelism;
  p.data_parallel_shard = choice.dp_shard;
  p.dense_fsdp_shard_size.reset();
  p.tensor_parallel = choice.tp;
  p.context_parallel = choice.cp;
  p.context_parallel_method = choice.method;
  p.ulysses_degree_in_cp.reset();
  if (choice.method == "hybrid") p.ulysses_degree_in_cp = choice.ulysses;
  p.pipeline_parallel = choice.pp;
  p.pipeline_parallel_interleave_num = choice.chunks;
  p.pipeline_parallel_layers_per_stage.reset();
  if (choice.pp > 1) {
    const int64_t layers = config.model.num_hidden_layers;
    LayersPerStage list;
    list.is_auto = layers < choice.pp * choice.chunks;  // the rules refuse it by name
    if (choice.light_ends && !list.is_auto) {
      list.stages = suggest_balanced_layers(layers, choice.pp, choice.chunks, 0.0, head_layers);
    }
    if (list.stages.empty() && !list.is_auto)
      list.stages = balanced_layers(layers, choice.pp, choice.chunks);
    p.pipeline_parallel_layers_per_stage = list;
  }
  p.expert_parallel = choice.ep;
  p.moe_token_dispatcher_type = choice.by_node ? "alltoall_deredundancy" : "alltoall";
  if (node_ranks > 0) p.npu_nums_per_device = node_ranks;
  p.reshard_after_forward_policy = choice.reshard;
  made.training.local_batch_size = choice.local_batch;
  made.recompute = RecomputeConfig{};
  if (choice.recompute != RecomputeChoice::kNone) {
    made.recompute.mode = "full";
    const int64_t layers = config.model.num_hidden_layers + config.model.num_nextn_predict_layers;
    std::vector<std::string> specs;
    if (choice.recompute == RecomputeChoice::kAll) {
      specs.push_back(layers == 1 ? "0" : fmt::format("0-{}", layers - 1));
    } else {
      for (int64_t layer = 0; layer < layers; layer += 2) specs.push_back(std::to_string(layer));
    }
    made.recompute.full_recompute_layer = specs;
  }
  return made;
}

double head_layers(const ModelConfig& model, const std::vector<ModelUnit>& units) {
  double head = 0.0, layers = 0.0;
  for (const ModelUnit& unit : units) {
    if (unit.kind == ModelUnit::Kind::kHead) head += static_cast<double>(unit.elements());
    if (unit.kind != ModelUnit::Kind::kLayer || unit.layer >= model.num_hidden_layers) continue;
    for (const TensorGroup& group : unit.tensors) {
      const double used = is_expert(group.role) ? static_cast<double>(model.num_experts_per_tok) /
                                                      static_cast<double>(model.n_routed_experts)
                                                : 1.0;
      layers += used * static_cast<double>(group.elements());
    }
  }
  return head * static_cast<double>(model.num_hidden_layers) / std::max(1.0, layers);
}

std::string to_text(const LayoutChoice& c) {
  std::string text;
  const auto degree = [&](Axis axis, int64_t value) {
    if (value > 1)
      text += fmt::format("{}{} {}", text.empty() ? "" : " x ", axis_name(axis), value);
  };
  degree(Axis::kDpReplicate, c.dp_replicate());
  degree(Axis::kDpShard, c.dp_shard);
  degree(Axis::kCp, c.cp);
  if (c.cp > 1) {
    text += c.method == "hybrid" ? fmt::format(" (hybrid, ulysses {})", c.ulysses)
                                 : " (" + c.method + ")";
  }
  degree(Axis::kTp, c.tp);
  degree(Axis::kPp, c.pp);
  if (c.chunks > 1) text += fmt::format(" ({} chunks)", c.chunks);
  if (text.empty()) text = "one rank";
  if (c.ep > 1) text += fmt::format(", ep {}{}", c.ep, c.by_node ? " by node" : "");
  text += fmt::format(", local batch {}", c.local_batch);
  if (c.recompute == RecomputeChoice::kHalf) text += ", recompute half";
  if (c.recompute == RecomputeChoice::kAll) text += ", recompute all";
  if (c.reshard != "default") text += ", reshard " + c.reshard;
  if (c.light_ends) text += ", fewer layers beside the head";
  return text;
}

}  // namespace tessera
