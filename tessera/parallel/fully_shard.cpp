#include "tessera/parallel/fully_shard.h"

#include <algorithm>
#include <compare>
#include <limits>
#include <map>

#include "tessera/layout/adapters.h"
#include "tessera/layout/dtypes.h"
#include "tessera/layout/recompute_plan.h"
#include "tessera/layout/resharding.h"
#include "tessera/nn/scalar_type.h"
#include "tessera/parallel/decoder_calls.h"

namespace tessera {
namespace {

struct Together {
  Axis axis;
  bool frozen;
  auto operator<=>(const Together&) const = default;
};

// By the axis that shards them, those of the dense mesh first; what is trained by itself.
std::map<Together, std::vector<Weight*>> by_axis(const std::vector<Weight*>& weights) {
  std::map<Together, std::vector<Weight*>> result;
  for (Weight* weight : weights) {
    result[{weight->parts.front().placement.sharded_over, weight->frozen}].push_back(weight);
  }
  return result;
}

// Where a unit stands in the forward pass of the whole model: the embedding, layers, the head.
int64_t place_of(const DecoderUnit& unit) {
  switch (unit.kind) {
    case DecoderUnit::Kind::kEmbedding: return -1;
    case DecoderUnit::Kind::kLayer:
    case DecoderUnit::Kind::kMtp: return unit.layer->index;
    case DecoderUnit::Kind::kHead: break;
  }
  return std::numeric_limits<int64_t>::max();
}

void use(Call& call, ShardedUnit* unit) {
  if (std::ranges::find(call.units, unit) == call.units.end()) call.units.push_back(unit);
}

}  // namespace

void fully_shard(ParallelModel& model, Decoder& decoder, const Config& config,
                 const DeviceMesh& mesh) {
  const Resharding reshard = resharding(config, mesh.dims());
  const RecomputePlan recompute(config);
  const at::ScalarType master = scalar_type(master_dtype(config.model));
  const int64_t first_trained = first_trained_layer(config.model);
  const std::vector<DecoderUnit> units = decoder.units();
  std::map<const Weight*, ShardedUnit*> owner;
  std::vector<Call> calls;
  for (const DecoderUnit& unit : units) {
    Call& call = calls.emplace_back(decoder_call(decoder, unit, recompute, reshard));
    call.trains = place_of(unit) >= first_trained;
    call.trains_before = place_of(unit) > first_trained;
    for (const auto& [together, weights] : by_axis(unit.weights)) {
      const auto& [axis, frozen] = together;
      std::string name = axis == Axis::kEfsdp ? call.name + " experts" : call.name;
      if (frozen) name += " (frozen)";
      model.units.push_back(
          std::make_unique<ShardedUnit>(name, weights, mesh, axis, master, model.table));
      for (const Weight* weight : weights) owner[weight] = model.units.back().get();
      use(call, model.units.back().get());
    }
  }
  for (size_t i = 0; i < units.size(); ++i) {
    for (const Weight* weight : weights_of_others(decoder, units[i])) {
      use(calls[i], owner.at(weight));
    }
  }
  model.chunks.emplace_back(std::move(calls), reshard, [&decoder](LayerContext& context) {
    if (!context.rope_cos.defined()) decoder.prepare(context);
  });
}

}  // namespace tessera
