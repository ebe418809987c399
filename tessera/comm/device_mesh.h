#pragma once

// Who a rank is: its place on every axis of the mesh and the group of each axis.

#include <map>
#include <string>
#include <string_view>

#include "tessera/comm/process_group.h"
#include "tessera/layout/parallel_dims.h"

namespace tessera {

class DeviceMesh {
 public:
  /// Collective over `world`, whose size is dims.world.
  DeviceMesh(const ParallelDims& dims, const ProcessGroup& world);

  /// The group of an axis: "pp", "dp_replicate", "dp_shard", "cp", "tp", "fsdp", "batch", "loss",
  /// "ep", "efsdp", "world", or "embedding": the first and the last stage of a pipeline, which
  /// share a tied matrix (every other rank is alone). An axis of size one is a real group. Axes
  /// with equal members share a transport and keep counters of their own. InternalError for another
  /// name.
  const ProcessGroup& operator[](std::string_view axis) const;

  /// An axis is a grid whose rows are runs of `count` neighbours, as those that hold copies of one
  /// part. The row of this rank; its column: the ranks with equal places in their rows. Made once;
  /// the first call with its arguments is collective over the axis.
  ProcessGroup neighbours(std::string_view axis, int count) const;
  ProcessGroup between(std::string_view axis, int count) const;

  int coordinate(std::string_view axis) const;  // place on the axis
  int size(std::string_view axis) const;
  int rank() const;           // world rank
  at::Device device() const;  // where this rank computes
  const ParallelDims& dims() const { return dims_; }
  /// Every axis and its group, for counters.
  const std::map<std::string, ProcessGroup, std::less<>>& groups() const { return groups_; }

 private:
  ProcessGroup part(std::string_view axis, int count, bool between) const;

  ParallelDims dims_;
  std::map<std::string, ProcessGroup, std::less<>> groups_;
  mutable std::map<std::string, ProcessGroup> parts_;  // of axes, by their names
};

}  // namespace tessera
