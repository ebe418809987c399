#pragma once

#include <string>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/planner/machine/machine.h"
#include "tessera/planner/model_units.h"
#include "tessera/planner/seconds/spent.h"

namespace tessera {

/// The seconds of a step, as a machine file lets one expect them.
struct SecondsPlan {
  std::string machine;  // its name
  bool measured = false;
  std::string warning;  // of another host; empty: none
  double step = 0.0;    // without what saving takes afterwards
  double tokens_per_second = 0.0;
  double mfu = 0.0;                  // model_flops over what the peak allows in that time
  double hfu = 0.0;                  // operations that are done, what runs again too
  std::vector<SpentSeconds> stages;  // [pp] each sums to `step`
  double save = 0.0;                 // of one checkpoint; 0: none, or not known
  double run = 0.0;                  // all steps and checkpoints
};

/// Runs the actions of a rank of each stage through a clock: a valid configuration at `world`
/// ranks, which are `processes` or threads where they share a host.
SecondsPlan plan_seconds(const Config& config, int64_t world, const Machine& machine,
                         bool processes);

/// The same; `units` are model_units(config.model), which a search over layouts makes once.
SecondsPlan plan_seconds(const Config& config, int64_t world, const Machine& machine,
                         bool processes, const std::vector<ModelUnit>& units);

/// How much slower a rank computes while `computing` of `world` ranks do: where they share cores,
/// each has the threads of its share, and no more when others wait.
double slow_down(const Machine& machine, int64_t computing, int64_t world);

}  // namespace tessera
