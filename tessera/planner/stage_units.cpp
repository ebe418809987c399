#include "tessera/planner/stage_units.h"

#include <algorithm>

#include "tessera/layout/layer_ranges.h"

namespace tessera {
namespace {

bool belongs(const ModelUnit& unit, const ChunkPlan& chunk, int64_t decoder_layers) {
  switch (unit.kind) {
    case ModelUnit::Kind::kEmbedding: return chunk.embedding;
    case ModelUnit::Kind::kHead: return chunk.head;
    case ModelUnit::Kind::kLayer: break;
  }
  if (unit.layer >= decoder_layers) return chunk.head;  // multi-token prediction
  return unit.layer >= chunk.first_layer && unit.layer <= chunk.last_layer;
}

}  // namespace

std::vector<StagePlan> plan_stages(const Config& config, const ParallelDims& dims) {
  const LayerPlacement placement = place_layers(config);
  const int64_t last = config.model.num_hidden_layers - 1;
  std::vector<StagePlan> stages;
  for (size_t pp = 0; pp < placement.size(); ++pp) {
    StagePlan stage;
    for (size_t chunk = 0; chunk < placement[pp].size(); ++chunk) {
      const LayerRange& range = placement[pp][chunk];
      ChunkPlan plan;
      plan.virtual_stage = static_cast<int64_t>(chunk) * dims.pp + static_cast<int64_t>(pp);
      plan.first_layer = range.first;
      plan.last_layer = range.last;
      plan.embedding = range.first == 0;
      plan.head = range.last == last;
      stage.chunks.push_back(plan);
    }
    stages.push_back(stage);
  }
  return stages;
}

std::vector<StageUnits> assign_units(const std::vector<ModelUnit>& units,
                                     const std::vector<StagePlan>& stages) {
  int64_t decoder_layers = 0;
  for (const StagePlan& stage : stages) {
    for (const ChunkPlan& chunk : stage.chunks) {
      decoder_layers = std::max(decoder_layers, chunk.last_layer + 1);
    }
  }
  std::vector<StageUnits> result;
  for (const StagePlan& stage : stages) {
    StageUnits held;
    for (size_t c = 0; c < stage.chunks.size(); ++c) {
      const ChunkPlan& chunk = stage.chunks[c];
      for (const ModelUnit& unit : units) {
        if (!belongs(unit, chunk, decoder_layers)) continue;
        const bool has_embedding = std::any_of(
            held.units.begin(), held.units.end(),
            [](const ModelUnit& other) { return other.kind == ModelUnit::Kind::kEmbedding; });
        if (unit.uses_embedding && !has_embedding) {
          held.units.push_back(units.front());
          held.units.back().is_copy = true;
          held.chunk_of_unit.push_back(c);
        }
        held.units.push_back(unit);
        held.chunk_of_unit.push_back(c);
      }
    }
    result.push_back(std::move(held));
  }
  return result;
}

}  // namespace tessera
