#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/box.h"
#include "tessera/nn/parameter.h"

namespace tessera {

/// Fills `out` [box.sizes] with its part of a fresh parameter of `shape`: the value of an element
/// depends on (seed, name, its index in the whole parameter) alone, bitwise, whatever the box.
/// Normal values are made in float64, times `std`, then rounded to the type of `out`. Any strides;
/// of a device other than the CPU it is copied there.
void fill(at::Tensor& out, InitKind kind, double std, uint64_t seed, const std::string& name,
          const std::vector<int64_t>& shape, const Box& box);

/// The same for one part of a weight (kind, spread, name and shape from the part). Of stacked
/// experts ("{e}" in the name, first dimension) each is filled under its own name.
void fill(at::Tensor& out, const ParameterPart& part, uint64_t seed, const Box& box);

}  // namespace tessera
