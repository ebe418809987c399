#pragma once

// Which rank holds which box of every parameter of the run, and whole tensors out of the boxes.

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/placement.h"
#include "tessera/dist/process_group.h"
#include "tessera/dist/sharded_param.h"

namespace tessera {

struct OwnedBox {
  int rank = 0;  // world rank of the primary holder
  Box box;
};

/// One parameter as the whole run holds it. The boxes tile the shape; empty ones are left out.
struct GlobalParam {
  std::string name;
  std::vector<int64_t> shape;
  at::ScalarType dtype = at::kFloat;  // of the master values
  std::vector<OwnedBox> boxes;        // by rank
};

/// Every parameter of every rank, in the order of the model (first stage first); the same on every
/// rank. Collective over the world, one exchange. Throws InternalError, on every rank, when ranks
/// disagree about a shape or dtype or when the boxes of a parameter do not add up to it.
std::vector<GlobalParam> gather_layout(const ParamTable& table, const ProcessGroup& world);

/// The whole tensor on rank `root`, undefined elsewhere. `part` is what this rank holds
/// ([box.sizes]; anything, also undefined, on ranks without a box in `param`); all parts have one
/// dtype, `dtype`. Every rank calls it.
at::Tensor assemble(const GlobalParam& param, const at::Tensor& part, at::ScalarType dtype,
                    const ProcessGroup& world, int root = 0);

/// The same, on every rank.
at::Tensor assemble_everywhere(const GlobalParam& param, const at::Tensor& part,
                               at::ScalarType dtype, const ProcessGroup& world);

}  // namespace tessera
