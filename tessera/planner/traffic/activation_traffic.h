#pragma once

#include <initializer_list>
#include <map>
#include <string>

#include "tessera/config/config.h"
#include "tessera/layout/batch_plan.h"
#include "tessera/layout/parallel_dims.h"
#include "tessera/layout/recompute_plan.h"
#include "tessera/planner/plan.h"
#include "tessera/planner/stage_units.h"

namespace tessera {

/// Adds what `rank` sends in a step for activations and their gradients: over tp (with sequence
/// parallelism, Korthikanti et al. 2022), cp, ep (with even routing) and pp. What is recomputed is
/// sent again. `chunks` are those of its stage.
void add_activation_traffic(const Config& config, const ParallelDims& dims, const BatchPlan& batch,
                            const StagePlan& chunks, const StageUnits& stage, int64_t rank,
                            std::map<Axis, TrafficPlan>& traffic);

/// Calls and bytes of operations, by name.
class TrafficCounter {
 public:
  /// `times` messages of `bytes` each.
  void add(const std::string& operation, int64_t times, int64_t bytes) {
    if (times == 0) return;
    TrafficPlan::Count& count = plan_.operations[operation];
    count.calls += times;
    count.bytes += times * bytes;
  }
  /// Adds them `times` times.
  void add_to(TrafficPlan& plan, int64_t times) const {
    for (const auto& [operation, count] : plan_.operations) {
      plan.operations[operation].calls += times * count.calls;
      plan.operations[operation].bytes += times * count.bytes;
    }
  }

 private:
  TrafficPlan plan_;
};

/// Forwards of a sub-module of `layer` in one micro-batch: 2 where one of `modules`, itself and
/// what it is in, runs again in the backward.
int64_t forwards(const RecomputePlan& plan, int64_t layer,
                 std::initializer_list<LayerModule> modules);

/// What attention sends over cp for one micro-batch of one layer.
void add_context_traffic(const Config& config, const ParallelDims& dims, const BatchPlan& batch,
                         const RecomputePlan& recompute, int64_t layer, int64_t rank,
                         TrafficCounter& counter);

}  // namespace tessera
