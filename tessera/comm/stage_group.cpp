#include "tessera/comm/stage_group.h"

#include <vector>

namespace tessera {

ProcessGroup stage_group(const DeviceMesh& mesh) {
  const ParallelDims& dims = mesh.dims();
  std::vector<std::vector<int>> stages(static_cast<size_t>(dims.pp));
  for (int64_t rank = 0; rank < dims.world; ++rank) {
    stages[static_cast<size_t>(dims.index_on(Axis::kPp, rank))].push_back(static_cast<int>(rank));
  }
  return mesh[Axis::kWorld].split(stages, std::string(axis_name(Axis::kWorld)) + "/stage");
}

}  // namespace tessera
