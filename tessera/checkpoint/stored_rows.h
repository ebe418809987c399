#pragma once

// The rows of a parameter table as a checkpoint holds them: an expert is a tensor of its own.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/base/box.h"
#include "tessera/comm/sharded_param.h"
#include "tessera/comm/state_tensor.h"

namespace tessera {

/// The state of an optimizer.
struct OptimizerState {
  /// Tensors of parameter `param` of the table, as they are kept.
  std::function<std::vector<StateTensor>(size_t param)> tensors;
  /// Fills what is kept in codes from numbers: the given function gets the parameter, the slot and
  /// a tensor to fill. Collective over a stage of the pipeline. Nothing is kept in codes: may be
  /// left out.
  std::function<void(
      const std::function<void(size_t param, const std::string& slot, const at::Tensor& values)>&)>
      encode = nullptr;
};

struct StoredRow {
  std::string name;            // of a weight, or "exp_avg.<weight>"
  std::vector<int64_t> shape;  // of the whole model
  Box box;                     // this rank's part, not empty
  at::Tensor value;            // [box.sizes], a view of the table's or the optimizer's
};

/// What this rank holds of a parameter (`value`) under `name`. An expert's box has lost its first
/// dimension, the expert.
std::vector<StoredRow> stored_rows(const std::string& name, const ShardedParam& param,
                                   const at::Tensor& value);

/// "exp_avg.model.norm.weight"
std::string state_name(const std::string& slot, const std::string& param);

}  // namespace tessera
