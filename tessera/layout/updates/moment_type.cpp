#include "tessera/layout/updates/moment_type.h"

namespace tessera {

MomentType moment_type(const OptimizerConfig& optimizer, const Slot& slot,
                       const StateOwner& owner) {
  constexpr int64_t kSmall = 4096;  // elements
  const size_t dims = owner.shape.size();
  if (slot.values == Slot::Values::kAsMaster || owner.dims() < 2) return MomentType::kMaster;
  if (owner.shape[dims - 2] * owner.shape[dims - 1] < kSmall) return MomentType::kMaster;
  if (optimizer.moment_dtype == "bfloat16") return MomentType::kBfloat16;
  return optimizer.moment_dtype == "int8" ? MomentType::kInt8 : MomentType::kMaster;
}

}  // namespace tessera
