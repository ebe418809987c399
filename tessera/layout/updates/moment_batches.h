#pragma once

// Which parameters' moments are wide at a time where they are kept in fewer bits, told once for the
// engine and the planner.

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/layout/parallel_dims.h"
#include "tessera/layout/placement.h"
#include "tessera/layout/updates/moment_blocks.h"

namespace tessera {

/// A parameter of a stage, with all cuts of its storage.
struct MomentTensor {
  std::string name;
  std::vector<int64_t> shape;  // of the whole model
  std::vector<AxisCut> cuts;
  int64_t shortened = 0;  // tensors of its state that are kept in fewer bits
};

/// Places in `tensors` by batch. The first batch has what is not shortened, the others at most 4 Mi
/// elements of the largest parts, or one tensor. The same for every order of the list and on every
/// rank of the stage of `rank`.
std::vector<std::vector<size_t>> moment_batches(const std::vector<MomentTensor>& tensors,
                                                const ParallelDims& dims, int64_t rank);

/// The cuts of each matrix of a tensor, of all ranks of the stage of `rank`.
CutLines cut_lines(const std::vector<int64_t>& shape, const std::vector<AxisCut>& cuts,
                   const ParallelDims& dims, int64_t rank);

/// The box of a matrix of a stack in the box of the stack; of a matrix itself: the same.
Box matrix_box(const Box& box);

}  // namespace tessera
