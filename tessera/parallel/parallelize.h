#pragma once

// The recipe: from a configuration and a mesh to this rank's part of the model, ready to step.
// Reading parallelize() top to bottom is reading which parallelism is applied in which order.

#include <memory>
#include <vector>

#include "tessera/comm/device_mesh.h"
#include "tessera/comm/sharded_param.h"
#include "tessera/config/config.h"
#include "tessera/models/decoder.h"
#include "tessera/parallel/model_chunk.h"
#include "tessera/parallel/sharded_unit.h"

namespace tessera {

struct ParallelModel {
  /// One decoder per pipeline chunk of this rank, with the seams replaced.
  std::vector<std::unique_ptr<Decoder>> decoders;
  std::vector<std::unique_ptr<ShardedUnit>> units;
  std::vector<ModelChunk> chunks;
  ParamTable table;
};

/// Collective over the mesh. Masters are zero: see initialize() and load_hf_weights() (train/).
std::unique_ptr<ParallelModel> parallelize(const Config& config, const DeviceMesh& mesh);

/// Moves the routers' selection biases by the counts of a step [layers, experts]: bias +=
/// moe_router_bias_update_rate x sign(mean - count). The same on every rank.
void update_router_biases(ParallelModel& model, const at::Tensor& tokens_per_expert,
                          const ModelConfig& config);

/// Initial values: a function of (training.seed, name, element) alone, the same on every layout.
void initialize(ParallelModel& model, const Config& config);

}  // namespace tessera
