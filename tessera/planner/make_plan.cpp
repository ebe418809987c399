#include <array>

#include "tessera/config/derive.h"
#include "tessera/planner/activation_traffic.h"
#include "tessera/planner/data_plan.h"
#include "tessera/planner/expert_plan.h"
#include "tessera/planner/flops.h"
#include "tessera/planner/memory_plan.h"
#include "tessera/planner/pipeline_plan.h"
#include "tessera/planner/plan.h"
#include "tessera/planner/stage_units.h"

namespace tessera {
namespace {

// What a rank holds and sends depends on these alone: replicas are computed once.
using Place = std::array<int64_t, 5>;

Place place_of(const ParallelDims& dims, int64_t rank) {
  return {dims.index_on(Axis::kPp, rank), dims.index_on(Axis::kFsdp, rank),
          dims.index_on(Axis::kTp, rank), dims.index_on(Axis::kEp, rank),
          dims.index_on(Axis::kEfsdp, rank)};
}

void plan_ranks(const Config& config, const std::vector<StageUnits>& stages, Plan& plan) {
  const PipelineSchedule schedule =
      make_schedule(schedule_options(config, plan.dims, plan.batch.micro_batches));
  std::map<Place, int64_t> planned;
  for (int64_t rank = 0; rank < plan.dims.world; ++rank) {
    const auto [entry, is_new] = planned.emplace(place_of(plan.dims, rank), rank);
    if (!is_new) {
      plan.memory.push_back(plan.memory[static_cast<size_t>(entry->second)]);
      plan.traffic.push_back(plan.traffic[static_cast<size_t>(entry->second)]);
      continue;
    }
    const auto pp = static_cast<size_t>(plan.dims.index_on(Axis::kPp, rank));
    const StageUnits& stage = stages[pp];
    plan.memory.push_back(plan_memory(config, plan.dims, plan.batch, schedule, stage, rank));
    auto traffic = plan_traffic(config, plan.dims, stage, plan.batch.micro_batches, rank);
    add_activation_traffic(config, plan.dims, plan.batch, plan.stages[pp], stage, rank, traffic);
    plan.traffic.push_back(std::move(traffic));
  }
}

}  // namespace

Plan make_plan(const Config& config, int64_t world) {
  Plan plan;
  plan.model_type = config.model.model_type;
  plan.dims = derive_dims(config, world);
  plan.batch = make_batch_plan(config.training, plan.dims);
  plan.steps = config.training.steps;
  plan.seq_length = config.model.seq_length;
  plan.data = plan_data(config, plan.batch);
  if (plan.model_type.empty()) return plan;

  const std::vector<ModelUnit> units = model_units(config.model);
  for (const ModelUnit& unit : units) plan.parameters += unit.elements();
  plan.flops_per_step = model_flops(config.model, static_cast<double>(plan.batch.effective_batch),
                                    static_cast<double>(plan.seq_length));
  plan.stages = plan_stages(config, plan.dims);
  const std::vector<StageUnits> stages = assign_units(units, plan.stages);
  for (size_t pp = 0; pp < stages.size(); ++pp) {
    for (size_t i = 0; i < stages[pp].units.size(); ++i) {
      plan.stages[pp].chunks[stages[pp].chunk_of_unit[i]].parameters +=
          stages[pp].units[i].elements();
    }
  }
  plan_ranks(config, stages, plan);
  plan.context = plan_context(config, plan.dims);
  plan.experts = plan_experts(config, plan.dims, plan.batch, plan.stages);
  if (plan.dims.pp > 1) {
    plan.pipeline = plan_pipeline(config, plan.dims, plan.stages, plan.batch.micro_batches);
  }
  return plan;
}

}  // namespace tessera
