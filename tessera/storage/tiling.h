#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/box.h"

namespace tessera {

/// What is wrong with `boxes` as a tiling of a tensor of `shape`: every element must be in exactly
/// one of them, and none may be empty. Empty: nothing is wrong.
std::string tiling_problem(const std::vector<int64_t>& shape, const std::vector<Box>& boxes);

}  // namespace tessera
