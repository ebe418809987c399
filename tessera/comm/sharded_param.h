#pragma once

// The one record of what a rank owns. Finishing of gradients, norm, clipping, optimizer, replica
// check, parity, checkpoint and export read this table and nothing else.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/box.h"
#include "tessera/comm/device_mesh.h"
#include "tessera/layout/placement.h"

namespace tessera {

struct ShardedParam {
  std::string name;            // Hugging Face name; stacked experts hold "{e}"
  std::vector<int64_t> shape;  // of the whole model
  ParamRole role = ParamRole::kNorm;
  std::vector<AxisCut> cuts;  // outer to inner: tp (or ep), then fsdp (or efsdp)
  /// Axes over which the gradient must still be summed when the backward passes are over. An axis
  /// that also cuts, with copies: summed over the copies.
  std::vector<Axis> partial;
  bool trainable = true;  // false: no gradient moves it (a router's selection bias)
  bool expert = false;    // lives on the sparse mesh: its axes are ep and efsdp, not tp and fsdp
  Box box;                // this rank's part
  at::Tensor value;       // master, [box.sizes]
  at::Tensor grad;        // main gradient, [box.sizes]; undefined until the first reduction

  /// Whether this rank is the one that counts its box: first on every axis that does not cut it and
  /// first of the copies of a cut.
  bool primary = true;
};

/// An axis along which ranks hold copies of the same box: the whole axis (copies 0), or runs of
/// `copies` neighbours.
struct ReplicaAxis {
  Axis axis = Axis::kFsdp;
  int copies = 0;
};
std::vector<ReplicaAxis> replica_axes(const ShardedParam& param);
ProcessGroup replica_group(const ReplicaAxis& replicas, const DeviceMesh& mesh);

/// Every parameter of this rank, in the order of the model; names are unique. Pointers to entries
/// stay valid (entries are never removed).
class ParamTable {
 public:
  /// Fills box and primary from shape and cuts. Throws InternalError when the name is there, or
  /// when finish_gradients() does not sum over an axis of `partial`.
  ShardedParam& add(ShardedParam param, const DeviceMesh& mesh);
  ShardedParam* find(const std::string& name);  // nullptr: this rank has no part of it
  std::vector<std::unique_ptr<ShardedParam>>& params() { return params_; }
  const std::vector<std::unique_ptr<ShardedParam>>& params() const { return params_; }

 private:
  std::vector<std::unique_ptr<ShardedParam>> params_;
};

/// Sums what is still Partial, one message per set of axes, in place. After it every rank's grad is
/// its box of the true gradient, and replicas are bitwise equal.
void finish_gradients(ParamTable& table, const DeviceMesh& mesh);

/// A box that two ranks hold with different bits.
struct ReplicaDifference {
  std::string name;
  Axis axis = Axis::kFsdp;  // along which the copies differ
  std::vector<int> ranks;   // world ranks that differ from the first
};

/// Compares the values (or gradients) of all copies, bitwise; collective over the world, the same
/// answer on every rank. Empty: all equal.
std::vector<ReplicaDifference> check_replicas(const ParamTable& table, const DeviceMesh& mesh,
                                              bool gradients = false);

}  // namespace tessera
