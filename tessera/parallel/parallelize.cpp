#include "tessera/parallel/parallelize.h"

#include "tessera/layout/layer_ranges.h"
#include "tessera/layout/recompute_plan.h"
#include "tessera/parallel/activation_checkpoint.h"
#include "tessera/parallel/context/context_parallel.h"
#include "tessera/parallel/experts/expert_parallel.h"
#include "tessera/parallel/experts/router_biases.h"
#include "tessera/parallel/fully_shard.h"
#include "tessera/parallel/place_weights.h"
#include "tessera/parallel/tensor/tensor_parallel.h"

namespace tessera {
namespace {

// Pipeline: the plain decoders of this rank's chunks, each with its layers of the whole model. The
// first one has the embedding, the last one the head.
std::vector<std::unique_ptr<Decoder>> build_chunks(const Config& config, const DeviceMesh& mesh) {
  const LayerPlacement placement = place_layers(config);
  const auto stage = static_cast<size_t>(mesh.coordinate(Axis::kPp));
  const size_t chunks = placement.at(stage).size();
  std::vector<std::unique_ptr<Decoder>> decoders;
  for (size_t chunk = 0; chunk < chunks; ++chunk) {
    const LayerRange range = placement[stage][chunk];
    std::vector<int64_t> layers;
    for (int64_t layer = range.first; layer <= range.last; ++layer) layers.push_back(layer);
    const bool first = stage == 0 && chunk == 0;
    const bool last = stage + 1 == placement.size() && chunk + 1 == chunks;
    decoders.push_back(build_decoder(config.model, layers, first, last));
  }
  return decoders;
}

}  // namespace

std::unique_ptr<ParallelModel> parallelize(const Config& config, const DeviceMesh& mesh) {
  auto model = std::make_unique<ParallelModel>();
  model->decoders = build_chunks(config, mesh);
  const RecomputePlan recompute(config);
  for (const auto& decoder : model->decoders) {
    // Seams: who computes what.
    tensor_parallel(*decoder, config, mesh);
    expert_parallel(*decoder, config, mesh);
    context_parallel(*decoder, config, mesh);
    activation_checkpoint(*decoder, recompute);
    // Weights: who holds what.
    place_weights(*decoder, config.model, mesh.dims());
    fully_shard(*model, *decoder, config, mesh);
    add_router_biases(*model, *decoder, config.model, mesh);
  }
  return model;
}

}  // namespace tessera
