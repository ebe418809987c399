#include "tessera/parallel/parallelize.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "tessera/base/error.h"
#include "tessera/layout/dtypes.h"
#include "tessera/layout/layer_ranges.h"
#include "tessera/layout/model_spec.h"
#include "tessera/layout/recompute_plan.h"
#include "tessera/nn/experts/moe.h"
#include "tessera/nn/scalar_type.h"
#include "tessera/parallel/activation_checkpoint.h"
#include "tessera/parallel/context_parallel.h"
#include "tessera/parallel/expert_parallel.h"
#include "tessera/parallel/tensor_parallel.h"

namespace tessera {
namespace {

struct Resharding {
  ShardingPolicy policy;
  bool after_forward = true;
  bool head_after_forward = true;
};

// always: freed after every use. never: one gather a step. default: always without a pipeline (but
// the head, whose backward follows its forward at once), never with one.
Resharding resharding(const Config& config, const DeviceMesh& mesh) {
  const std::string& asked = config.parallelism.reshard_after_forward_policy;
  const bool pipelined = mesh.size("pp") > 1;
  const bool never = asked == "never" || (asked == "default" && pipelined);
  Resharding result;
  result.policy.keep_until_step_ends = never;
  result.policy.reduce_once_per_step = never && pipelined;
  result.after_forward = !never;
  result.head_after_forward = asked == "always";
  return result;
}

CallFunction call_of(Decoder& decoder, const DecoderUnit& unit) {
  switch (unit.kind) {
    case DecoderUnit::Kind::kEmbedding:
      return [&decoder](const std::vector<at::Tensor>&, const LayerContext& context) {
        return std::vector<at::Tensor>{decoder.run_embedding(context)};
      };
    case DecoderUnit::Kind::kLayer:
      return
          [layer = unit.layer](const std::vector<at::Tensor>& inputs, const LayerContext& context) {
            return layer->run(inputs.at(0), context);
          };
    case DecoderUnit::Kind::kMtp:
      return [&decoder](const std::vector<at::Tensor>& inputs, const LayerContext& context) {
        std::vector<at::Tensor> out = decoder.run_mtp(inputs.at(0), context);
        if (!context.recompute && context.sinks != nullptr) {
          context.sinks->mtp_loss[context.micro_batch] = out[1].detach();
        }
        return out;
      };
    case DecoderUnit::Kind::kHead:
      return [&decoder](const std::vector<at::Tensor>& inputs, const LayerContext& context) {
        at::Tensor loss = decoder.run_head(inputs.at(0), context);
        if (!context.recompute && context.sinks != nullptr) {
          context.sinks->loss[context.micro_batch] = loss.detach();
        }
        return std::vector<at::Tensor>{loss};
      };
  }
  TESSERA_CHECK(false, "unknown unit");
}

std::string call_name(const DecoderUnit& unit) {
  switch (unit.kind) {
    case DecoderUnit::Kind::kEmbedding: return "embedding";
    case DecoderUnit::Kind::kMtp:
    case DecoderUnit::Kind::kLayer: return "layer " + std::to_string(unit.layer->index);
    case DecoderUnit::Kind::kHead: return "head";
  }
  TESSERA_CHECK(false, "unknown unit");
}

// Weights that the call of a unit uses and that other units hold.
std::vector<const Weight*> weights_of_others(Decoder& decoder, const DecoderUnit& unit) {
  if (unit.kind == DecoderUnit::Kind::kHead) return {decoder.head->weight};
  if (unit.kind == DecoderUnit::Kind::kMtp) {
    return {&decoder.mtp_embedding().weight, &decoder.norm->weight, decoder.head->weight};
  }
  return {};
}

// FSDP / HSDP: one sharded unit per unit of the decoder; a tied head also uses the embedding's.
void fully_shard(ParallelModel& model, Decoder& decoder, const Config& config,
                 const RecomputePlan& recompute, const DeviceMesh& mesh) {
  const Resharding reshard = resharding(config, mesh);
  std::map<const Weight*, ShardedUnit*> owner;
  std::vector<Call> calls;
  std::vector<std::vector<const Weight*>> shared_weights;
  for (const DecoderUnit& unit : decoder.units()) {
    Call call;
    call.name = call_name(unit);
    call.forward = call_of(decoder, unit);
    const bool head = unit.kind == DecoderUnit::Kind::kHead;
    call.losses = head ? 1 : unit.layer != nullptr ? unit.layer->losses() : 0;
    call.reshard_after_forward = head ? reshard.head_after_forward : reshard.after_forward;
    if (unit.layer != nullptr) {
      call.layer = unit.layer->index;
      call.recompute = recompute.whole(call.layer);
    }
    const auto shard = [&](const std::string& name, const std::vector<Weight*>& weights,
                           const std::string& axis) {
      model.units.push_back(std::make_unique<ShardedUnit>(
          name, weights, mesh, axis, scalar_type(master_dtype(config.model)), model.table));
      for (const Weight* weight : weights) owner[weight] = model.units.back().get();
      call.units.push_back(model.units.back().get());
    };
    const auto [dense, experts] = split_off_experts(unit.weights);
    shard(call.name, dense, "fsdp");
    if (!experts.empty()) shard(call.name + " experts", experts, "efsdp");
    if (unit.kind == DecoderUnit::Kind::kMtp) ++call.losses;
    shared_weights.push_back(weights_of_others(decoder, unit));
    calls.push_back(std::move(call));
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    std::vector<ShardedUnit*>& units = calls[i].units;
    for (const Weight* weight : shared_weights[i]) {
      ShardedUnit* of_other = owner.at(weight);
      if (std::find(units.begin(), units.end(), of_other) == units.end()) units.push_back(of_other);
    }
  }
  model.chunks.emplace_back(std::move(calls), reshard.policy);
}

// A tied matrix (also one that multi-token prediction uses) lives on the first and on the last
// stage of a pipeline: its gradient is the sum.
void share_tied_embedding(Decoder& decoder, const Config& config, const DeviceMesh& mesh) {
  if (!config.model.uses_embedding_last() || mesh.size("pp") == 1) return;
  Weight* tied = decoder.embedding ? &decoder.embedding->weight : nullptr;
  if (decoder.head) {
    tied = decoder.mtp ? &decoder.mtp_embedding().weight : decoder.head->weight;
  }
  if (tied != nullptr) tied->parts.front().partial.emplace_back("embedding");
}

// What no gradient moves has a row too: the selection biases of the routers, whole on every rank.
void add_router_biases(ParallelModel& model, Decoder& decoder, const ModelConfig& config,
                       const DeviceMesh& mesh) {
  for (const DecoderLayer* layer : decoder.all_layers()) {
    const auto* moe = dynamic_cast<const MixtureOfExperts*>(layer->mlp.get());
    if (moe == nullptr || !moe->router->bias.defined()) continue;
    for (const ParamSpec& spec : model_spec(config)) {
      if (spec.layer != layer->index || spec.role != ParamRole::kRouterBias) continue;
      ShardedParam row;
      row.name = spec.name;
      row.shape = spec.shape;
      row.trainable = false;
      row.value = moe->router->bias = moe->router->bias.to(mesh.device());
      model.table.add(std::move(row), mesh);
    }
  }
}

}  // namespace

void update_router_biases(ParallelModel& model, const at::Tensor& tokens_per_expert,
                          const ModelConfig& config) {
  for (const auto& decoder : model.decoders) {
    for (const DecoderLayer* layer : decoder->all_layers()) {
      const auto* moe = dynamic_cast<const MixtureOfExperts*>(layer->mlp.get());
      if (moe == nullptr || !moe->router->bias.defined()) continue;
      at::Tensor bias = moe->router->bias;
      const at::Tensor counts = tokens_per_expert[layer->index].to(bias.device());
      bias.add_((counts.mean() - counts).sign().to(bias.scalar_type()),
                config.moe_router_bias_update_rate);
    }
  }
}

std::unique_ptr<ParallelModel> parallelize(const Config& config, const DeviceMesh& mesh) {
  auto model = std::make_unique<ParallelModel>();
  const LayerPlacement placement = place_layers(config);
  const auto stage = static_cast<size_t>(mesh.coordinate("pp"));
  const size_t chunks = placement.at(stage).size();
  for (size_t chunk = 0; chunk < chunks; ++chunk) {
    const LayerRange range = placement[stage][chunk];
    std::vector<int64_t> layers;
    for (int64_t layer = range.first; layer <= range.last; ++layer) layers.push_back(layer);
    const bool first = stage == 0 && chunk == 0;
    const bool last = stage + 1 == placement.size() && chunk + 1 == chunks;
    model->decoders.push_back(build_decoder(config.model, layers, first, last));
  }
  const RecomputePlan recompute(config);
  for (const auto& decoder : model->decoders) {
    share_tied_embedding(*decoder, config, mesh);
    tensor_parallel(*decoder, config, mesh);
    expert_parallel(*decoder, config, mesh);
    context_parallel(*decoder, config, mesh);
    activation_checkpoint(*decoder, recompute);
    fully_shard(*model, *decoder, config, recompute, mesh);
    add_router_biases(*model, *decoder, config.model, mesh);
  }
  return model;
}

}  // namespace tessera
