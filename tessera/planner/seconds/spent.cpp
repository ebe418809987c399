#include "tessera/planner/seconds/spent.h"

#include "tessera/layout/axis.h"

namespace tessera {

std::string_view spent_name(size_t kind) {
  switch (static_cast<Spent>(kind)) {
    case Spent::kProducts: return "products";
    case Spent::kExperts: return "experts";
    case Spent::kAttention: return "attention";
    case Spent::kElements: return "elements";
    case Spent::kTp: return axis_name(Axis::kTp);
    case Spent::kCp: return axis_name(Axis::kCp);
    case Spent::kEp: return axis_name(Axis::kEp);
    case Spent::kFsdp: return axis_name(Axis::kFsdp);
    case Spent::kPp: return axis_name(Axis::kPp);
    case Spent::kFinish: return "finish";
    case Spent::kUpdate: return "update";
    case Spent::kLoad: return "load";
    case Spent::kShared: return "shared";
    case Spent::kIdle: break;
  }
  return "idle";
}

}  // namespace tessera
