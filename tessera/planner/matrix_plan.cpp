#include "tessera/planner/matrix_plan.h"

#include <algorithm>

#include "tessera/config/cpu_features.h"
#include "tessera/config/optimizer_kind.h"
#include "tessera/layout/dtypes.h"
#include "tessera/layout/updates/newton_schulz_steps.h"

namespace tessera {
namespace {

// Elements of the four messages of a rank in a round, and what the largest iteration needs.
struct RoundSizes {
  int64_t given = 0, taken = 0, returned = 0, received = 0;
  int64_t scratch = 0;  // bytes
};

// The matrix, the one that an iteration makes of it, and the two small products.
int64_t iteration_bytes(const DealtMatrix& matrix, DType master) {
  const bool is_short = master == DType::kFloat32 && cpu_has_bfloat16();
  const int64_t element = size_of(is_short ? DType::kBFloat16 : master);
  return matrix.numel() * (size_of(master) + (is_short ? 2 : 1) * element) +
         2 * matrix.shorter() * matrix.shorter() * element;
}

// While the matrices of a round are iterated, the next are on their way, and so are the results of
// the round before.
int64_t largest_memory(const std::vector<RoundSizes>& rounds, int64_t element) {
  int64_t most = 0;
  for (size_t r = 0; r < rounds.size(); ++r) {
    const RoundSizes now = rounds[r];
    const RoundSizes next = r + 1 < rounds.size() ? rounds[r + 1] : RoundSizes{};
    const RoundSizes before = r > 0 ? rounds[r - 1] : RoundSizes{};
    const int64_t moving =
        next.given + next.taken + now.returned + before.returned + before.received;
    most =
        std::max({most, (now.given + now.taken) * element,
                  (moving + now.taken) * element + now.scratch, (moving + now.received) * element});
  }
  return most;
}

}  // namespace

std::optional<MatrixDeal> deal_matrices(const Config& config, const ParallelDims& dims,
                                        const StageUnits& stage, int64_t rank) {
  const OptimizerKind& kind = *config.optimizer.kind;
  std::vector<DealtTensor> tensors;
  for (const ModelUnit& unit : stage.units) {
    for (const TensorGroup& group : unit.tensors) {
      if (group.frozen) continue;
      for (const std::string& name : group.names) {
        if (!kind.needs_whole(config.optimizer, {name, group.role, group.shape})) continue;
        const Placement placement = place_parameter(group.role, config.model, dims);
        tensors.push_back(
            {name, group.shape, stored_cuts(placement, group.shape, dims),
             matrix_pieces(group.role, group.shape[group.shape.size() - 2], config.model)});
      }
    }
  }
  if (tensors.empty()) return std::nullopt;
  return MatrixDeal(std::move(tensors), dims, rank);
}

std::vector<MatrixPlan> plan_matrices(const Config& config, const MatrixDeal& deal) {
  const DType master = master_dtype(config.model);
  const auto iterations = static_cast<double>(newton_schulz_steps(config.optimizer).size());
  const auto ranks = static_cast<size_t>(deal.ranks());
  std::vector<std::vector<RoundSizes>> sizes(
      ranks, std::vector<RoundSizes>(static_cast<size_t>(deal.rounds())));
  std::vector<MatrixPlan> plans(ranks);
  for (const DealtMatrix& matrix : deal.matrices()) {
    const auto round = static_cast<size_t>(matrix.round);
    const auto owner = static_cast<size_t>(matrix.owner);
    RoundSizes& own = sizes[owner][round];
    for (const MatrixShare& share : deal.sources(matrix)) {
      if (share.place == matrix.owner) continue;
      sizes[static_cast<size_t>(share.place)][round].given += share.elements;
      own.taken += share.elements;
    }
    for (const MatrixShare& share : deal.holders(matrix)) {
      if (share.place == matrix.owner) continue;
      sizes[static_cast<size_t>(share.place)][round].received += share.elements;
      own.returned += share.elements;
    }
    own.scratch = std::max(own.scratch, iteration_bytes(matrix, master));
    plans[owner].flops += iterations * newton_schulz_flops(matrix);
    ++plans[owner].matrices;
  }
  for (size_t place = 0; place < ranks; ++place) {
    plans[place].rounds = deal.rounds();
    for (const RoundSizes& round : sizes[place]) {
      plans[place].sent += (round.given + round.returned) * size_of(master);
    }
    plans[place].memory = largest_memory(sizes[place], size_of(master));
  }
  return plans;
}

}  // namespace tessera
