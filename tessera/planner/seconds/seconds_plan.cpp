#include "tessera/planner/seconds/seconds_plan.h"

#include <algorithm>
#include <optional>

#include "tessera/layout/batch_plan.h"
#include "tessera/layout/dtypes.h"
#include "tessera/layout/pipeline_options.h"
#include "tessera/planner/flops.h"
#include "tessera/planner/machine/machine_file.h"
#include "tessera/planner/matrix_plan.h"
#include "tessera/planner/moment_plan.h"
#include "tessera/planner/pipeline_plan.h"
#include "tessera/planner/plan.h"
#include "tessera/planner/seconds/clock.h"
#include "tessera/planner/seconds/stage_passes.h"
#include "tessera/planner/seconds/step_end.h"
#include "tessera/planner/stage_units.h"
#include "tessera/rules/derive.h"
#include "tessera/schedule/make_schedule.h"

namespace tessera {
double slow_down(const Machine& machine, int64_t computing, int64_t world) {
  if (machine.devices || machine.sharing.points.empty()) return 1.0;
  const int64_t least = std::min(world, std::max<int64_t>(1, machine.cores));
  const auto at = static_cast<double>(std::max(computing, least));
  const Curve::Point& last = machine.sharing.points.back();
  return at <= last.at ? machine.sharing(at) : last.value * at / last.at;
}

SecondsPlan plan_seconds(const Config& config, int64_t world, const Machine& machine,
                         bool processes) {
  return plan_seconds(config, world, machine, processes, model_units(config.model));
}

SecondsPlan plan_seconds(const Config& config, int64_t world, const Machine& machine,
                         bool processes, const std::vector<ModelUnit>& units) {
  const ParallelDims dims = derive_dims(config, world);
  const BatchPlan batch = make_batch_plan(config, dims);
  const WorkSeconds seconds(machine, config, dims, processes);
  const std::vector<StageUnits> stages = assign_units(units, plan_stages(config, dims));
  const int64_t of_stage = world / dims.pp;

  std::vector<StagePasses> passes;
  const CallTapes tapes(config, dims, batch, /*rank=*/0);
  double flops = 0.0;
  for (size_t pp = 0; pp < stages.size(); ++pp) {
    passes.emplace_back(config, dims, batch, stages[pp], tapes, static_cast<int64_t>(pp) * of_stage,
                        seconds);
    flops += passes.back().flops() * static_cast<double>(of_stage * batch.micro_batches);
  }

  // A pass costs the same for all micro-batches between the first and the last.
  const size_t chunks = stages.empty() ? 1 : plan_stages(config, dims).front().chunks.size();
  std::vector<std::optional<SpentSeconds>> made(stages.size() * chunks * 8);
  ClockCosts costs;
  costs.pass = [&](int64_t rank, const Pass& pass, bool backward) {
    const bool first = pass.micro_batch == 0;
    const bool last = pass.micro_batch == batch.micro_batches - 1;
    const auto chunk = static_cast<size_t>(pass.chunk);
    const size_t at = (static_cast<size_t>(rank) * chunks + chunk) * 8 + (backward ? 4 : 0) +
                      (first ? 2 : 0) + (last ? 1 : 0);
    if (!made[at]) {
      const StagePasses& stage = passes[static_cast<size_t>(rank)];
      made[at] =
          backward ? stage.backward(chunk, {first, last}) : stage.forward(chunk, {first, last});
    }
    return *made[at];
  };
  const auto stream =
      static_cast<double>(batch.local_batch * config.model.seq_length / dims.cp / dims.tp *
                          config.model.hidden_size * size_of(config.model.compute_dtype));
  costs.transfer = dims.pp > 1 ? seconds.message(Axis::kPp, "send", stream) : 0.0;
  costs.overlap = machine.overlap;
  if (!machine.devices && !machine.sharing.points.empty())
    costs.sharing = [&](int64_t computing) {
      return slow_down(machine, computing * of_stage, world);
    };
  const ClockTimes times =
      run_clock(make_schedule(pipeline_options(config.parallelism, batch.micro_batches)), costs);

  SecondsPlan plan;
  plan.machine = machine.name;
  plan.measured = machine.measured;
  plan.warning = machine_warning(machine);
  plan.stages = times.spent;
  plan.step = times.step;
  std::vector<SpentSeconds> ends;
  double longest = 0.0;
  for (size_t pp = 0; pp < stages.size(); ++pp) {
    ends.push_back(step_end(config, dims, batch, stages[pp], static_cast<int64_t>(pp) * of_stage,
                            seconds, slow_down(machine, world, world)));
    longest = std::max(longest, ends.back().sum());
  }
  for (size_t pp = 0; pp < stages.size(); ++pp) {
    plan.stages[pp] += ends[pp];
    plan.stages[pp][Spent::kIdle] += longest - ends[pp].sum();
  }
  plan.step += longest;
  const auto tokens = static_cast<double>(batch.effective_batch * config.model.seq_length);
  const double peak = machine.rates(config.model.compute_dtype).peak *
                      (machine.devices ? static_cast<double>(world) : 1.0);
  plan.tokens_per_second = tokens / plan.step;
  plan.mfu = model_flops(config.model, static_cast<double>(batch.effective_batch),
                         static_cast<double>(config.model.seq_length)) /
             (plan.step * peak);
  plan.hfu = flops / (plan.step * peak);
  plan.save = save_seconds(config, dims, stages, machine);
  const auto steps = static_cast<double>(config.training.steps);
  const int64_t saves =
      config.checkpoint.enable_save && config.checkpoint.save_interleaved_steps > 0
          ? config.training.steps / config.checkpoint.save_interleaved_steps
          : 0;
  plan.run = steps * plan.step + static_cast<double>(saves) * plan.save;
  return plan;
}

}  // namespace tessera
