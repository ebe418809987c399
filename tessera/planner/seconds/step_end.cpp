#include "tessera/planner/seconds/step_end.h"

#include <algorithm>

#include "tessera/layout/dtypes.h"
#include "tessera/layout/placement.h"
#include "tessera/planner/matrix_plan.h"
#include "tessera/planner/moment_plan.h"
#include "tessera/planner/tapes/held_elements.h"
#include "tessera/planner/traffic/traffic_plan.h"

namespace tessera {
namespace {

struct State {
  double elements = 0.0;  // of the rank's parts
  double moments = 0.0;   // bytes
};

State state_of(const Config& config, const ParallelDims& dims, const StageUnits& stage,
               int64_t rank) {
  State state;
  for (const ModelUnit& unit : stage.units) {
    for (const TensorGroup& group : unit.tensors) {
      if (group.frozen) continue;
      const Placement placement = place_parameter(group.role, config.model, dims);
      state.elements += static_cast<double>(held_elements(group, placement, dims, rank).own);
      state.moments += static_cast<double>(moment_bytes(config, dims, group, rank));
    }
  }
  return state;
}

}  // namespace

SpentSeconds step_end(const Config& config, const ParallelDims& dims, const BatchPlan& batch,
                      const StageUnits& stage, int64_t rank, const WorkSeconds& seconds,
                      double slow) {
  SpentSeconds spent;
  for (const auto& [axis, traffic] : plan_traffic(config, dims, stage, batch.micro_batches, rank)) {
    const auto sums = traffic.operations.find("all_reduce");
    if (sums == traffic.operations.end() || sums->second.calls == 0) continue;
    const auto calls = static_cast<double>(sums->second.calls);
    spent[Spent::kFinish] +=
        calls *
        seconds.message(axis, "all_reduce", static_cast<double>(sums->second.bytes) / calls);
  }
  const auto master = static_cast<double>(size_of(master_dtype(config.model)));
  const State state = state_of(config, dims, stage, rank);
  // The norm reads the gradients; with the loss it is one message.
  spent[Spent::kFinish] += slow * seconds.elements(master * state.elements) +
                           seconds.message(Axis::kWorld, "all_reduce", 64.0);
  // Weights and moments are read and written, gradients are read.
  spent[Spent::kUpdate] += slow * seconds.elements(3 * master * state.elements + 2 * state.moments);
  if (const auto deal = deal_matrices(config, dims, stage,
                                      rank / (dims.world / dims.pp) * (dims.world / dims.pp))) {
    double longest = 0.0;
    for (const MatrixPlan& of_rank : plan_matrices(config, *deal)) {
      Work iterations = product_work(1024, 1024, 1024);
      iterations.flops = of_rank.flops;
      iterations.calls = of_rank.matrices;
      const double sent =
          seconds.message(Axis::kFsdp, "all_to_all", static_cast<double>(of_rank.sent));
      longest = std::max(longest, slow * seconds.of({iterations}).sum() + sent);
    }
    spent[Spent::kUpdate] += longest;
  }
  const Machine& machine = seconds.machine();
  if (!machine.devices) {
    spent[Spent::kLoad] += slow * machine.load_token *
                           static_cast<double>(batch.local_batch * batch.micro_batches *
                                               config.model.seq_length / dims.cp);
  }
  return spent;
}

double save_seconds(const Config& config, const ParallelDims& dims,
                    const std::vector<StageUnits>& stages, const Machine& machine) {
  if (!config.checkpoint.enable_save || machine.disk_bandwidth == 0) return 0.0;
  double bytes = 0.0;  // of a node: what its ranks write
  const int64_t of_stage = dims.world / dims.pp;
  for (size_t pp = 0; pp < stages.size(); ++pp) {
    const State state = state_of(config, dims, stages[pp], static_cast<int64_t>(pp) * of_stage);
    const auto copies = static_cast<double>(of_stage / dims.dp_replicate);
    bytes += copies * (state.elements * static_cast<double>(size_of(master_dtype(config.model))) +
                       (config.checkpoint.no_save_optim ? 0.0 : state.moments));
  }
  const int64_t node = machine.node_ranks > 0 ? machine.node_ranks : dims.world;
  const auto nodes = static_cast<double>(std::max<int64_t>(1, dims.world / node));
  // A copy in memory is what an asynchronous save takes of a step.
  const double rate =
      config.checkpoint.async_save ? machine.memory_bandwidth : machine.disk_bandwidth;
  return bytes / nodes / rate;
}

}  // namespace tessera
