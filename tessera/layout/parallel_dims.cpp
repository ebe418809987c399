#include "tessera/layout/parallel_dims.h"

#include "tessera/base/error.h"

namespace tessera {

std::string_view axis_name(Axis axis) {
  switch (axis) {
    case Axis::kPp: return "pp";
    case Axis::kDpReplicate: return "dp_replicate";
    case Axis::kDpShard: return "dp_shard";
    case Axis::kCp: return "cp";
    case Axis::kTp: return "tp";
    case Axis::kFsdp: return "fsdp";
    case Axis::kBatch: return "batch";
    case Axis::kLoss: return "loss";
    case Axis::kEp: return "ep";
    case Axis::kEfsdp: return "efsdp";
  }
  return "unknown";
}

int64_t ParallelDims::size(Axis axis) const {
  switch (axis) {
    case Axis::kPp: return pp;
    case Axis::kDpReplicate: return dp_replicate;
    case Axis::kDpShard: return dp_shard;
    case Axis::kCp: return cp;
    case Axis::kTp: return tp;
    case Axis::kFsdp: return fsdp();
    case Axis::kBatch: return batch();
    case Axis::kLoss: return loss();
    case Axis::kEp: return ep;
    case Axis::kEfsdp: return efsdp();
  }
  return 1;
}

Coordinate ParallelDims::coordinate(int64_t rank) const {
  TESSERA_CHECK(rank >= 0 && rank < world, "rank ", rank, " of ", world);
  Coordinate at;
  at.tp = rank % tp;
  rank /= tp;
  at.cp = rank % cp;
  rank /= cp;
  at.dp_shard = rank % dp_shard;
  rank /= dp_shard;
  at.dp_replicate = rank % dp_replicate;
  at.pp = rank / dp_replicate;
  return at;
}

int64_t ParallelDims::rank_of(const Coordinate& at) const {
  return (((at.pp * dp_replicate + at.dp_replicate) * dp_shard + at.dp_shard) * cp + at.cp) * tp +
         at.tp;
}

namespace {

// The ranks of every axis, also of one that joins neighbours, are first + i * stride.
int64_t stride_of(const ParallelDims& dims, Axis axis) {
  switch (axis) {
    case Axis::kPp: return dims.dp_replicate * dims.dp_shard * dims.cp * dims.tp;
    case Axis::kDpReplicate: return dims.dp_shard * dims.cp * dims.tp;
    case Axis::kDpShard:
    case Axis::kBatch: return dims.cp * dims.tp;
    case Axis::kCp:
    case Axis::kFsdp:
    case Axis::kLoss: return dims.tp;
    case Axis::kEfsdp: return dims.ep;
    case Axis::kTp:
    case Axis::kEp: return 1;
  }
  return 1;
}

}  // namespace

int64_t ParallelDims::index_on(Axis axis, int64_t rank) const {
  TESSERA_CHECK(rank >= 0 && rank < world, "rank ", rank, " of ", world);
  return rank / stride_of(*this, axis) % size(axis);
}

std::vector<int64_t> ParallelDims::members(Axis axis, int64_t rank) const {
  const int64_t stride = stride_of(*this, axis);
  const int64_t first = rank - index_on(axis, rank) * stride;
  std::vector<int64_t> ranks(size(axis));
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = first + static_cast<int64_t>(i) * stride;
  return ranks;
}

std::vector<std::vector<int64_t>> ParallelDims::groups(Axis axis) const {
  std::vector<std::vector<int64_t>> all;
  for (int64_t rank = 0; rank < world; ++rank) {
    if (index_on(axis, rank) == 0) all.push_back(members(axis, rank));
  }
  return all;
}

}  // namespace tessera
