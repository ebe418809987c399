#include "tessera/storage/box_copy.h"

#include <algorithm>

namespace tessera {

std::optional<Box> intersection(const Box& a, const Box& b) {
  Box common;
  for (size_t d = 0; d < a.sizes.size(); ++d) {
    const int64_t begin = std::max(a.offsets[d], b.offsets[d]);
    const int64_t end = std::min(a.offsets[d] + a.sizes[d], b.offsets[d] + b.sizes[d]);
    if (begin >= end) return std::nullopt;
    common.offsets.push_back(begin);
    common.sizes.push_back(end - begin);
  }
  return common;
}

void for_each_run(const Box& common, const Box& from, const Box& to,
                  const std::function<void(int64_t, int64_t, int64_t)>& visit) {
  int64_t run = 1;
  size_t outer = common.sizes.size();  // dimensions [0, outer) count the runs
  while (outer > 0) {
    --outer;
    run *= common.sizes[outer];
    if (common.sizes[outer] != from.sizes[outer] || common.sizes[outer] != to.sizes[outer]) break;
  }
  std::vector<int64_t> at(outer, 0);  // place within `common`
  const auto place_in = [&](const Box& box) {
    int64_t flat = 0;
    for (size_t d = 0; d < box.sizes.size(); ++d) {
      const int64_t index = common.offsets[d] - box.offsets[d] + (d < outer ? at[d] : 0);
      flat = flat * box.sizes[d] + index;
    }
    return flat;
  };
  while (true) {
    visit(place_in(from), place_in(to), run);
    size_t d = outer;
    while (d > 0 && ++at[d - 1] == common.sizes[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace tessera
