#pragma once

#include <memory>
#include <vector>

#include "tessera/comm/sharded_param.h"
#include "tessera/models/decoder.h"
#include "tessera/parallel/model_chunk.h"
#include "tessera/parallel/sharded_unit.h"

namespace tessera {

/// This rank's part of the model.
struct ParallelModel {
  /// One decoder per pipeline chunk of this rank, with the seams replaced.
  std::vector<std::unique_ptr<Decoder>> decoders;
  std::vector<std::unique_ptr<ShardedUnit>> units;
  std::vector<ModelChunk> chunks;
  ParamTable table;
};

}  // namespace tessera
