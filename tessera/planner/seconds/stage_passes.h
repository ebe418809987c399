#pragma once

#include <vector>

#include "tessera/config/config.h"
#include "tessera/layout/batch_plan.h"
#include "tessera/layout/parallel_dims.h"
#include "tessera/layout/resharding.h"
#include "tessera/planner/seconds/work_seconds.h"
#include "tessera/planner/stage_units.h"
#include "tessera/planner/tapes/call_tapes.h"

namespace tessera {

/// Which micro-batch of a step a pass is of: the first gathers what is kept, the last reduces what
/// was summed.
struct PassPlace {
  bool first = false;
  bool last = false;
};

/// What the passes of one stage take, unit by unit, with gathers one unit ahead and reductions
/// while the next unit runs, where the machine does both at a time.
class StagePasses {
 public:
  StagePasses(const Config& config, const ParallelDims& dims, const BatchPlan& batch,
              const StageUnits& stage, const CallTapes& tapes, int64_t rank,
              const WorkSeconds& seconds);

  SpentSeconds forward(size_t chunk, PassPlace place) const;
  SpentSeconds backward(size_t chunk, PassPlace place) const;
  double flops() const { return flops_; }  // of a micro-batch, what runs again too

 private:
  struct Unit {
    SpentSeconds forward, backward;
    double gather = 0.0;  // of its weights
    double reduce = 0.0;  // of its gradients
    bool head = false;
  };
  std::vector<std::vector<Unit>> chunks_;
  Resharding policy_;
  bool overlap_;
  double flops_ = 0.0;
};

}  // namespace tessera
