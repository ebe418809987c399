#include "tessera/planner/pipeline_plan.h"

#include <fmt/format.h>

#include "tessera/base/error.h"
#include "tessera/layout/batch_plan.h"
#include "tessera/layout/pipeline_options.h"
#include "tessera/planner/stage_units.h"
#include "tessera/rules/derive.h"
#include "tessera/schedule/balance.h"
#include "tessera/schedule/draw.h"
#include "tessera/schedule/make_schedule.h"
#include "tessera/schedule/simulate.h"
#include "tessera/schedule/validate_schedule.h"

namespace tessera {
namespace {

constexpr double kWorthNaming = 0.02;  // of idle time over working time

Simulation simulate_layers(const PipelineSchedule& schedule, const std::vector<int64_t>& layers) {
  return simulate(schedule, layer_costs(layers, /*embedding=*/0.0, /*head=*/0.0));
}

}  // namespace

void prove(const PipelineSchedule& schedule) {
  const std::optional<std::string> problem = validate_schedule(schedule);
  TESSERA_CHECK(!problem, "the schedule is wrong: ", *problem);
}

PipelineSchedule proven_schedule(const Config& config, int64_t micro_batches) {
  PipelineSchedule schedule = make_schedule(pipeline_options(config.parallelism, micro_batches));
  prove(schedule);
  return schedule;
}

std::vector<int64_t> layers_by_virtual_stage(const std::vector<StagePlan>& stages) {
  std::vector<int64_t> layers(stages.size() * stages.front().chunks.size());
  for (const StagePlan& stage : stages) {
    for (const ChunkPlan& chunk : stage.chunks) {
      layers[static_cast<size_t>(chunk.virtual_stage)] = chunk.last_layer - chunk.first_layer + 1;
    }
  }
  return layers;
}

PipelinePlan plan_pipeline(const Config& config, const PipelineSchedule& schedule,
                           const std::vector<StagePlan>& stages) {
  const ScheduleOptions& options = schedule.options;
  const Simulation simulation = simulate_layers(schedule, layers_by_virtual_stage(stages));
  PipelinePlan plan;
  plan.micro_batches = options.micro_batches;
  plan.idle_over_ideal = simulation.idle_over_ideal();
  for (int64_t rank = 0; rank < options.stages; ++rank) {
    plan.idle_share.push_back(simulation.idle_share(rank));
    plan.peak_live_chunks.push_back(simulation.ranks[static_cast<size_t>(rank)].peak_live);
  }
  plan.order = format_schedule(schedule, /*compute_only=*/true);
  plan.table = schedule_table(schedule);

  const int64_t layers = config.model.num_hidden_layers;
  const std::vector<int64_t> balanced =
      balance_layers(layers, options.stages, options.chunks, 0.0, 0.0);
  if (balanced.empty()) return plan;
  const double better = simulate_layers(schedule, balanced).idle_over_ideal();
  if (better + kWorthNaming < plan.idle_over_ideal) {
    plan.better_idle_over_ideal = better;
    plan.better_layers = suggest_balanced_layers(layers, options.stages, options.chunks, 0.0, 0.0);
  }
  return plan;
}

std::string pipeline_svg(const Config& config, int64_t world) {
  const ParallelDims dims = derive_dims(config, world);
  if (dims.pp == 1) {
    throw ConfigError("parallelism.pipeline_parallel = 1: there is no pipeline to draw");
  }
  const int64_t micro_batches = make_batch_plan(config, dims).micro_batches;
  const PipelineSchedule schedule = proven_schedule(config, micro_batches);
  const Simulation simulation =
      simulate_layers(schedule, layers_by_virtual_stage(plan_stages(config, dims)));
  const std::string title =
      fmt::format("{} stages, {} chunks each, {} micro-batches: idle {:.1f} % of the work", dims.pp,
                  schedule.options.chunks, micro_batches, 100.0 * simulation.idle_over_ideal());
  return schedule_svg(schedule, simulation, title);
}

}  // namespace tessera
