#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tessera/base/box.h"

namespace tessera {

/// What two boxes of one tensor share; nothing when that is empty.
std::optional<Box> intersection(const Box& a, const Box& b);

/// Elements of the row-major arrays of two boxes that hold the box `common` of both: calls
/// `visit(first in from, first in to, count)` for every run that lies together in both, in order.
void for_each_run(const Box& common, const Box& from, const Box& to,
                  const std::function<void(int64_t, int64_t, int64_t)>& visit);

}  // namespace tessera
