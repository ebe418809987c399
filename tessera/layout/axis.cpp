#include "tessera/layout/axis.h"

#include "tessera/base/error.h"

namespace tessera {

std::string_view axis_name(Axis axis) {
  switch (axis) {
    case Axis::kPp: return "pp";
    case Axis::kDpReplicate: return "dp_replicate";
    case Axis::kDpShard: return "dp_shard";
    case Axis::kCp: return "cp";
    case Axis::kTp: return "tp";
    case Axis::kFsdp: return "fsdp";
    case Axis::kBatch: return "batch";
    case Axis::kLoss: return "loss";
    case Axis::kEp: return "ep";
    case Axis::kEfsdp: return "efsdp";
    case Axis::kEmbedding: return "embedding";
    case Axis::kWorld: return "world";
  }
  TESSERA_CHECK(false, "unknown axis");
}

std::optional<Axis> axis_from_name(std::string_view name) {
  for (const Axis axis : kAllAxes) {
    if (axis_name(axis) == name) return axis;
  }
  return std::nullopt;
}

}  // namespace tessera
