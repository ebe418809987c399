#pragma once

#include <cstdint>
#include <vector>

#include "tessera/layout/axis.h"

namespace tessera {

/// Where a rank stands on the five outer axes.
struct Coordinate {
  int64_t pp = 0;
  int64_t dp_replicate = 0;
  int64_t dp_shard = 0;
  int64_t cp = 0;
  int64_t tp = 0;

  bool operator==(const Coordinate&) const = default;
};

/// The degrees of a run. Legal ones (see derive_dims) satisfy
/// dp_replicate * dp_shard * cp * tp * pp == world and ep | dp_shard * cp * tp.
struct ParallelDims {
  int64_t world = 1;
  int64_t pp = 1;
  int64_t dp_replicate = 1;
  int64_t dp_shard = 1;
  int64_t cp = 1;
  int64_t tp = 1;
  int64_t ep = 1;

  int64_t fsdp() const { return dp_shard * cp; }
  int64_t batch() const { return dp_replicate * dp_shard; }
  int64_t loss() const { return batch() * cp; }
  int64_t efsdp() const { return dp_shard * cp * tp / ep; }
  /// Ranks of a group of `axis`; of embedding: of a group that the first stage is in.
  int64_t size(Axis axis) const;

  Coordinate coordinate(int64_t rank) const;
  int64_t rank_of(const Coordinate& at) const;

  /// Position of `rank` on `axis`: its index in members(axis, rank).
  int64_t index_on(Axis axis, int64_t rank) const;

  /// The ranks of the group of `axis` that holds `rank`, ascending.
  std::vector<int64_t> members(Axis axis, int64_t rank) const;

  /// Every group of `axis`, each ascending, ordered by first member.
  std::vector<std::vector<int64_t>> groups(Axis axis) const;

  bool operator==(const ParallelDims&) const = default;
};

}  // namespace tessera
