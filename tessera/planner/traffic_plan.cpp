#include <string>

#include "tessera/layout/dtypes.h"
#include "tessera/planner/memory_plan.h"
#include "tessera/planner/placement_rules.h"

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
int64_t gathers_per_step(const ReshardPolicy& policy, const ModelUnit& unit,
                         const EmbeddingUses& embedding, int64_t micro_batches) {
  if (policy.keep_all_step) return 1;
  const int64_t head_uses = policy.keep_head ? 1 : 2;
  int64_t uses = unit.kind == ModelUnit::Kind::kHead ? head_uses : 2;
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

// One message carries all tensors of a unit over one axis.
struct UnitBytes {
  bool any = false;
  int64_t own = 0;      // this rank's part of the full weights, in the dtype of the computation
  int64_t reduced = 0;  // full gradients but for its own part
};

// The embedding, of which the first and the last stage of a pipeline each have a copy.
int64_t shared_embedding_bytes(const Config& config, const ParallelDims& dims,
                               const StageUnits& stage, int64_t rank) {
  const int64_t pp = dims.index_on(Axis::kPp, rank);
  if (!config.model.uses_embedding_last() || dims.pp == 1) return 0;
  if (pp != 0 && pp != dims.pp - 1) return 0;
  int64_t elements = 0;
  for (const ModelUnit& unit : stage.units) {
    if (unit.kind != ModelUnit::Kind::kEmbedding) continue;
    for (const TensorGroup& group : unit.tensors) {
      elements += local_elements(group.shape, cuts_of(group.role, config.model, dims), dims, rank);
    }
  }
  return elements * size_of(master_dtype(config.model));
}

}  // namespace

int64_t TrafficPlan::bytes() const {
  int64_t sum = 0;
  for (const auto& [name, operation] : operations) sum += operation.bytes;
  return sum;
}

std::map<std::string, TrafficPlan> plan_traffic(const Config& config, const ParallelDims& dims,
                                                const StageUnits& stage, int64_t micro_batches,
                                                int64_t rank) {
  const ReshardPolicy policy = reshard_policy(config, dims);
  const DType master = master_dtype(config.model);
  const int64_t reductions = policy.reduce_once ? 1 : micro_batches;
  const EmbeddingUses embedding = embedding_uses(stage);

  std::map<std::string, TrafficPlan> plan;
  int64_t owned_bytes = 0;
  for (const ModelUnit& unit : stage.units) {
    std::map<std::string, UnitBytes> by_axis;
    for (const TensorGroup& group : unit.tensors) {
      const auto cuts = cuts_of(group.role, config.model, dims);
      const int64_t owned = group.count * local_elements(group.shape, cuts, dims, rank);
      const int64_t full =
          group.count *
          local_elements(group.shape, compute_cuts_of(group.role, config.model, dims), dims, rank);
      // Gradients summed over several micro-batches before they travel are in the main dtype.
      const DType sent = policy.reduce_once && micro_batches > 1 ? master : group.compute;
      UnitBytes& bytes = by_axis[cuts.back().axis];
      bytes.any = true;
      bytes.own += owned * size_of(group.compute);
      bytes.reduced += (full - owned) * size_of(sent);
      owned_bytes += owned * size_of(master);
    }
    const int64_t gathers = gathers_per_step(policy, unit, embedding, micro_batches);
    for (const auto& [axis, bytes] : by_axis) {
      const int64_t n = axis == "efsdp" ? dims.efsdp() : dims.fsdp();
      if (n == 1) continue;
      // A copy travels in the message of the unit that uses it.
      const bool alone = !unit.is_copy;
      count(plan[axis], "all_gather", alone ? gathers : 0, gathers * (n - 1) * bytes.own);
      count(plan[axis], "reduce_scatter", alone ? reductions : 0, reductions * bytes.reduced);
    }
  }
  if (const int64_t bytes = shared_embedding_bytes(config, dims, stage, rank); bytes > 0) {
    count(plan["embedding"], "all_reduce", 1, bytes);  // 2 (n - 1) / n of it, n = 2 stages
  }
  if (const int64_t replicas = dims.dp_replicate; replicas > 1) {
    count(plan["dp_replicate"], "all_reduce", 1, 2 * (replicas - 1) * owned_bytes / replicas);
  }
  return plan;
}

}  // namespace tessera
