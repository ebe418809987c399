#pragma once

// Sums (or maxima, minima) of several buffers on the CPU, in one pass and in a fixed order.

#include <c10/core/ScalarType.h>

#include <cstdint>

#include "tessera/comm/process_group.h"

namespace tessera {

/// out[i] := (or out[i] +, if `accumulate`) inputs[0][i] op inputs[1][i] op ..., the first input
/// first, for i in [0, count). 16-bit floats are added in float32 and rounded once, at the end.
/// `out` may be one of the inputs.
using ReduceKernel = void (*)(void* out, bool accumulate, const void* const* inputs, int num_inputs,
                              int64_t count);

/// `in` to `out` dtype: equal, or 16-bit floats to float32, or float32 to float64. Throws
/// InternalError for any other pair.
ReduceKernel reduce_kernel(at::ScalarType out, at::ScalarType in, ReduceOp op);

}  // namespace tessera
