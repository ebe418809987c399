#pragma once

// What tensor and expert parallelism say about every part of a weight (nn/parameter.h).

#include <string>

#include "tessera/nn/parameter.h"

namespace tessera {

/// `axis` cuts dimension `dim`.
inline void mark_cut(Weight& weight, const std::string& axis, int dim) {
  for (ParameterPart& part : weight.parts) part.cuts.push_back({axis, dim, 1});
}

/// Whole on every rank of `axis`, each of which computes with it on tokens or heads of its own: the
/// gradient is a partial sum.
inline void mark_partial(Weight& weight, const std::string& axis) {
  for (ParameterPart& part : weight.parts) part.partial.push_back(axis);
}

}  // namespace tessera
