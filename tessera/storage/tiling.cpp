#include "tessera/storage/tiling.h"

#include <algorithm>
#include <optional>
#include <set>

#include "tessera/storage/box_copy.h"

namespace tessera {
namespace {

// None: more than 63 bits hold.
std::optional<int64_t> product(const std::vector<int64_t>& sizes) {
  int64_t all = 1;
  for (const int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(all, size, &all)) return std::nullopt;
  }
  return all;
}

// The dimension along which most boxes begin at different places.
size_t most_cut_dimension(const std::vector<int64_t>& shape, const std::vector<Box>& boxes) {
  size_t best = 0, most = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    std::set<int64_t> begins;
    for (const Box& box : boxes) begins.insert(box.offsets[d]);
    if (begins.size() > most) {
      most = begins.size();
      best = d;
    }
  }
  return best;
}

// Compares only boxes that share places along one dimension.
bool overlap(const std::vector<int64_t>& shape, std::vector<Box> boxes) {
  if (boxes.size() < 2) return false;
  if (shape.empty()) return true;
  const size_t d = most_cut_dimension(shape, boxes);
  std::ranges::sort(boxes, {}, [d](const Box& box) { return box.offsets[d]; });
  for (size_t i = 0; i < boxes.size(); ++i) {
    const int64_t end = boxes[i].offsets[d] + boxes[i].sizes[d];
    for (size_t j = i + 1; j < boxes.size() && boxes[j].offsets[d] < end; ++j) {
      if (intersection(boxes[i], boxes[j])) return true;
    }
  }
  return false;
}

}  // namespace

std::string tiling_problem(const std::vector<int64_t>& shape, const std::vector<Box>& boxes) {
  const std::optional<int64_t> whole = product(shape);
  if (!whole) return "a shape that no tensor has";
  int64_t held = 0;
  for (const Box& box : boxes) {
    if (box.offsets.size() != shape.size() || box.sizes.size() != shape.size()) {
      return "a part of another rank";
    }
    for (size_t d = 0; d < shape.size(); ++d) {
      if (box.offsets[d] < 0 || box.sizes[d] <= 0 || box.offsets[d] > shape[d] - box.sizes[d]) {
        return "a part outside";
      }
    }
    if (__builtin_add_overflow(held, box.numel(), &held)) return "its parts do not tile it";
  }
  if (held != *whole || overlap(shape, boxes)) return "its parts do not tile it";
  return "";
}

}  // namespace tessera
