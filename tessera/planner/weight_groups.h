#pragma once

#include <cstdint>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/layout/parallel_dims.h"
#include "tessera/planner/model_units.h"

namespace tessera {

/// Weights that are gathered, freed and reduced together on one rank: those of a unit, its experts
/// by themselves where they are cut over ep. Bytes.
struct WeightGroup {
  int64_t gathered = 0;         // full weights in use; none where they are the masters themselves
  int64_t converted = 0;        // the rank's part in the dtype of the use, while it is gathered
  int64_t gradients = 0;        // full gradients as they leave the backward
  int64_t summed = 0;           // the same in the masters' dtype
  int64_t shard = 0;            // the rank's part of the gradients
  int64_t received = 0;         // of other processes: their parts of `gradients` for this rank
  int64_t received_summed = 0;  // and of `summed`
  bool reduced = false;         // a shard is made of the full gradients; else they are it
};

/// The groups of a unit that are not empty. `processes`: see plan_memory.
std::vector<WeightGroup> weight_groups(const Config& config, const ParallelDims& dims,
                                       const ModelUnit& unit, int64_t rank, bool processes);

}  // namespace tessera
