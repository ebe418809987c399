#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace tessera {

/// A tensor of an optimizer's state for one row of a parameter table, as it is kept.
struct StateTensor {
  std::string slot;  // "exp_avg"
  /// [box.sizes], in the master's type, bfloat16, or codes (uint8) that `scales` go with.
  at::Tensor value;
  /// float32, of the blocks that the box touches (layout/moment_blocks.h), matrix by matrix of a
  /// stack: [matrices * blocks]. Undefined: no codes.
  at::Tensor scales = {};
  bool is_signed = true;  // of codes
};

}  // namespace tessera
