#pragma once

// Who a rank is: its place on every axis of the mesh and the group of each axis.

#include <map>
#include <tuple>

#include "tessera/comm/process_group.h"
#include "tessera/layout/parallel_dims.h"

namespace tessera {

class DeviceMesh {
 public:
  /// Collective over `world`, whose size is dims.world.
  DeviceMesh(const ParallelDims& dims, const ProcessGroup& world);

  /// The group of an axis, with this rank in it. An axis of size one is a real group. Axes with
  /// equal members share a transport and keep counters of their own.
  const ProcessGroup& operator[](Axis axis) const;

  /// An axis is a grid whose rows are runs of `count` neighbours, as those that hold copies of one
  /// part. The row of this rank; its column: the ranks with equal places in their rows. Made once;
  /// the first call with its arguments is collective over the axis.
  ProcessGroup neighbours(Axis axis, int count) const;
  ProcessGroup between(Axis axis, int count) const;

  int coordinate(Axis axis) const;  // place on the axis
  int size(Axis axis) const;
  int rank() const;           // world rank
  at::Device device() const;  // where this rank computes
  const ParallelDims& dims() const { return dims_; }
  /// Every axis and its group, for counters.
  const std::map<Axis, ProcessGroup>& groups() const { return groups_; }

 private:
  ProcessGroup part(Axis axis, int count, bool between) const;

  ParallelDims dims_;
  std::map<Axis, ProcessGroup> groups_;
  // Of axes: by axis, count and whether it is a column.
  mutable std::map<std::tuple<Axis, int, bool>, ProcessGroup> parts_;
};

}  // namespace tessera
