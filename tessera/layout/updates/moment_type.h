#pragma once

#include "tessera/config/config.h"
#include "tessera/config/optimizer_kind.h"

namespace tessera {

/// In which an optimizer keeps a tensor of its state.
enum class MomentType {
  kMaster,    // that of the master
  kBfloat16,  // rounded stochastically
  kInt8,      // codes, and a float32 scale for each block (moment_blocks.h)
};

/// optimizer.moment_dtype for matrices of at least 4096 elements (of a stack of experts: of one),
/// as far as the slot may be shortened; kMaster for all else.
MomentType moment_type(const OptimizerConfig& optimizer, const Slot& slot, const StateOwner& owner);

}  // namespace tessera
