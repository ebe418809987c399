#include "tessera/planner/traffic/traffic_plan.h"

#include <set>
#include <utility>

#include "tessera/layout/dtypes.h"
#include "tessera/layout/resharding.h"
#include "tessera/planner/tapes/held_elements.h"

namespace tessera {
namespace {

// What uses an embedding beside the look-up of tokens.
struct EmbeddingUses {
  bool head = false;        // tied
  bool prediction = false;  // of several tokens
};

EmbeddingUses embedding_uses(const StageUnits& stage) {
  EmbeddingUses uses;
  for (const ModelUnit& unit : stage.units) {
    if (!unit.uses_embedding) continue;
    (unit.kind == ModelUnit::Kind::kHead ? uses.head : uses.prediction) = true;
  }
  return uses;
}

// Gathers of a unit in a step: one for each stretch over which its weights stay. The head follows
// on the prediction of several tokens, which uses the head's weights too: they stay in between.
int64_t gathers_per_step(const Resharding& policy, const ModelUnit& unit,
                         const EmbeddingUses& embedding, int64_t micro_batches) {
  if (policy.keep_all_step) return 1;
  const int64_t head_uses = policy.keep_head ? 1 : 2;
  int64_t uses = !unit.trains ? 1 : unit.kind == ModelUnit::Kind::kHead ? head_uses : 2;
  if (unit.kind == ModelUnit::Kind::kEmbedding) {
    const int64_t others = embedding.head ? head_uses : embedding.prediction ? 2 : 0;
    uses = unit.is_copy ? others : uses + others;
  }
  return uses * micro_batches;
}

void count(TrafficPlan& plan, const std::string& operation, int64_t calls, int64_t bytes) {
  plan.operations[operation].calls += calls;
  plan.operations[operation].bytes += bytes;
}

// Once a step: gradients that are still partial sums, in one message for each group of ranks that
// hold the same.
void add_partial_sums(const Config& config, const ParallelDims& dims, const StageUnits& stage,
                      int64_t rank, std::map<Axis, TrafficPlan>& plan) {
  struct Message {
    int64_t ranks = 0;
    int64_t bytes = 0;
  };
  std::map<std::pair<Axis, int>, Message> messages;  // by axis and copies; 0: the whole axis
  for (const ModelUnit& unit : stage.units) {
    for (const TensorGroup& group : unit.tensors) {
      if (group.frozen) continue;
      const Placement placement = place_parameter(group.role, config.model, dims);
      const int64_t own = held_elements(group, placement, dims, rank).own;
      for (const Axis axis : placement.partial) {
        const AxisCut* cut = find_cut(placement.cuts, axis);
        Message& message = messages[{axis, cut == nullptr ? 0 : cut->copies}];
        message.ranks = cut == nullptr ? dims.size(axis) : cut->copies;
        message.bytes += own * size_of(master_dtype(config.model));
      }
    }
  }
  for (const auto& [group, message] : messages) {
    count(plan[group.first], "all_reduce", 1,
          2 * (message.ranks - 1) * message.bytes / message.ranks);
  }
}

}  // namespace

std::map<Axis, UnitBytes> unit_bytes(const Config& config, const ParallelDims& dims,
                                     const ModelUnit& unit, int64_t micro_batches, int64_t rank) {
  // Gradients summed over several micro-batches before they travel are in the main dtype.
  const bool summed = resharding(config, dims).reduce_once && micro_batches > 1;
  std::map<Axis, UnitBytes> by_axis;
  std::set<std::pair<Axis, bool>> messages;
  for (const TensorGroup& group : unit.tensors) {
    const Placement placement = place_parameter(group.role, config.model, dims);
    const auto [full, own] = held_elements(group, placement, dims, rank);
    const DType sent = summed ? master_dtype(config.model) : group.compute;
    UnitBytes& bytes = by_axis[placement.sharded_over];
    bytes.own += own * size_of(group.compute);
    if (messages.emplace(placement.sharded_over, group.frozen).second) {
      ++bytes.messages;
      if (!group.frozen) ++bytes.sums;
    }
    if (!group.frozen) bytes.reduced += (full - own) * size_of(sent);
  }
  return by_axis;
}

int64_t TrafficPlan::bytes() const {
  int64_t sum = 0;
  for (const auto& [name, operation] : operations) sum += operation.bytes;
  return sum;
}

std::map<Axis, TrafficPlan> plan_traffic(const Config& config, const ParallelDims& dims,
                                         const StageUnits& stage, int64_t micro_batches,
                                         int64_t rank) {
  const Resharding policy = resharding(config, dims);
  const int64_t reductions = policy.reduce_once ? 1 : micro_batches;
  const EmbeddingUses embedding = embedding_uses(stage);

  std::map<Axis, TrafficPlan> plan;
  for (const ModelUnit& unit : stage.units) {
    const std::map<Axis, UnitBytes> by_axis = unit_bytes(config, dims, unit, micro_batches, rank);
    const int64_t gathers = gathers_per_step(policy, unit, embedding, micro_batches);
    for (const auto& [axis, bytes] : by_axis) {
      const int64_t n = dims.size(axis);
      if (n == 1) continue;
      // A copy travels in the message of the unit that uses it.
      const bool alone = !unit.is_copy;
      count(plan[axis], "all_gather", alone ? gathers * bytes.messages : 0,
            gathers * (n - 1) * bytes.own);
      if (bytes.sums == 0) continue;
      count(plan[axis], "reduce_scatter", alone ? reductions : 0, reductions * bytes.reduced);
    }
  }
  add_partial_sums(config, dims, stage, rank, plan);
  return plan;
}

}  // namespace tessera
