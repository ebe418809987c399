#include "tessera/layout/parallel_dims.h"

#include "tessera/base/error.h"

namespace tessera {

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
    case Axis::kEmbedding: return pp > 1 ? 2 : 1;
    case Axis::kWorld: return world;
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

// The ranks of a group, also on an axis that joins neighbours, are first + i * stride.
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
    case Axis::kEp:
    case Axis::kWorld: return 1;
    case Axis::kEmbedding: return dims.world / dims.pp * (dims.pp - 1);  // first to last stage
  }
  return 1;
}

// Whether the rank is in a stage that neither begins nor ends the pipeline.
bool is_inside(const ParallelDims& dims, int64_t rank) {
  const int64_t stage = dims.index_on(Axis::kPp, rank);
  return stage > 0 && stage < dims.pp - 1;
}

}  // namespace

int64_t ParallelDims::index_on(Axis axis, int64_t rank) const {
  TESSERA_CHECK(rank >= 0 && rank < world, "rank ", rank, " of ", world);
  if (axis == Axis::kEmbedding) return pp > 1 && index_on(Axis::kPp, rank) == pp - 1 ? 1 : 0;
  return rank / stride_of(*this, axis) % size(axis);
}

std::vector<int64_t> ParallelDims::members(Axis axis, int64_t rank) const {
  if (axis == Axis::kEmbedding && is_inside(*this, rank)) return {rank};
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
