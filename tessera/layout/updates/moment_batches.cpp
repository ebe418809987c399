#include "tessera/layout/updates/moment_batches.h"

#include <algorithm>
#include <numeric>

namespace tessera {
namespace {

constexpr int64_t kBatchElements = 1 << 22;

int64_t first_of_stage(const ParallelDims& dims, int64_t rank) {
  const int64_t ranks = dims.world / dims.pp;
  return rank / ranks * ranks;
}

}  // namespace

std::vector<std::vector<size_t>> moment_batches(const std::vector<MomentTensor>& tensors,
                                                const ParallelDims& dims, int64_t rank) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return tensors[i].name; });
  std::vector<std::vector<size_t>> batches(1);
  int64_t elements = 0;
  for (const size_t i : order) {
    const MomentTensor& tensor = tensors[i];
    if (tensor.shortened == 0) {
      batches.front().push_back(i);
      continue;
    }
    // The first rank's part is the largest.
    const int64_t own = tensor.shortened *
                        box_of(tensor.shape, tensor.cuts, dims, first_of_stage(dims, rank)).numel();
    if (batches.size() == 1 || elements + own > kBatchElements) {
      batches.emplace_back();
      elements = 0;
    }
    batches.back().push_back(i);
    elements += own;
  }
  return batches;
}

Box matrix_box(const Box& box) {
  if (box.sizes.size() < 3) return box;
  return {{box.offsets.begin() + 1, box.offsets.end()}, {box.sizes.begin() + 1, box.sizes.end()}};
}

CutLines cut_lines(const std::vector<int64_t>& shape, const std::vector<AxisCut>& cuts,
                   const ParallelDims& dims, int64_t rank) {
  CutLines lines;
  const int64_t first = first_of_stage(dims, rank);
  for (int64_t place = 0; place < dims.world / dims.pp; ++place) {
    const Box box = box_of(shape, cuts, dims, first + place);
    if (box.numel() == 0) continue;
    const Box matrix = matrix_box(box);
    lines.rows.insert(matrix.offsets[0]);
    lines.columns.insert(matrix.offsets[1]);
  }
  return lines;
}

}  // namespace tessera
