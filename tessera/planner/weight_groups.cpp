#include "tessera/planner/weight_groups.h"

#include "tessera/base/message_size.h"
#include "tessera/layout/dtypes.h"
#include "tessera/planner/tapes/held_elements.h"

namespace tessera {

std::vector<WeightGroup> weight_groups(const Config& config, const ParallelDims& dims,
                                       const ModelUnit& unit, int64_t rank, bool processes) {
  const DType master = master_dtype(config.model);
  std::vector<WeightGroup> groups;
  for (const auto& [sparse, frozen] : {std::pair{false, false}, std::pair{false, true},
                                       std::pair{true, false}, std::pair{true, true}}) {
    WeightGroup sum;
    bool aliased = true;
    std::vector<std::pair<const TensorGroup*, Placement>> members;
    int64_t tensors = 0;
    for (const TensorGroup& group : unit.tensors) {
      Placement placement = place_parameter(group.role, config.model, dims);
      if (placement.is_sparse() != sparse || group.frozen != frozen) continue;
      tensors += group.count;
      members.emplace_back(&group, std::move(placement));
    }
    if (members.empty()) continue;
    const int64_t ranks = dims.size(members.front().second.sharded_over);
    const bool sharded = ranks > 1;
    for (const auto& [member, placement] : members) {
      const TensorGroup& group = *member;
      const auto [full, own] = held_elements(group, placement, dims, rank);
      // What travels packed is there once more, at both ends.
      const auto packed = [&, own = own](DType type) {
        const bool small = own / group.count * size_of(type) < kPieceOfItsOwn;
        return tensors > 1 && small ? own * size_of(type) : 0;
      };
      const bool rounded =
          !frozen && size_of(storage_dtype(group.role, config.model)) < size_of(master);
      if (sharded || group.compute != group.held || rounded) aliased = false;
      sum.gathered += full * size_of(group.compute);
      if (group.compute != group.held || rounded) sum.converted += own * size_of(group.compute);
      if (processes && sharded && frozen) sum.converted += ranks * packed(group.compute);
      if (frozen) continue;
      sum.gradients += full * size_of(group.compute);
      sum.summed += full * size_of(master);
      sum.shard += own * size_of(master);
      if (processes) {
        const int64_t others = ranks - 1;
        if (sharded) sum.converted += (others + 1) * packed(group.compute);
        sum.received += others * (own * size_of(group.compute) + 2 * packed(group.compute));
        sum.received_summed += others * (own * size_of(master) + 2 * packed(master));
      }
      sum.reduced = sum.reduced || sharded || group.compute != master;
    }
    if (aliased) sum.gathered = sum.converted = 0;
    groups.push_back(sum);
  }
  return groups;
}

}  // namespace tessera
