#include <algorithm>
#include <map>

#include "tessera/layout/placement.h"
#include "tessera/planner/data_plan.h"
#include "tessera/planner/expert_plan.h"
#include "tessera/planner/flops.h"
#include "tessera/planner/matrix_plan.h"
#include "tessera/planner/memory_plan.h"
#include "tessera/planner/moment_plan.h"
#include "tessera/planner/pipeline_plan.h"
#include "tessera/planner/plan.h"
#include "tessera/planner/stage_units.h"
#include "tessera/planner/traffic/activation_traffic.h"
#include "tessera/planner/traffic/traffic_plan.h"
#include "tessera/rules/derive.h"

namespace tessera {
namespace {

// Ranks that hold and send the same, so that each kind is planned once. Beside its place on cp,
// what a rank of a stage does depends only on the sizes of its parts: of the tokens, of the
// vocabulary and of every tensor, as gathered and as its own.
class Likeness {
 public:
  Likeness(const Config& config, const ParallelDims& dims, const BatchPlan& batch,
           const StageUnits& stage)
      : dims_(dims),
        tokens_(batch.local_batch * config.model.seq_length / dims.cp),
        vocabulary_(config.model.vocab_size) {
    for (const ModelUnit& unit : stage.units) {
      for (const TensorGroup& group : unit.tensors) {
        const Placement placement = place_parameter(group.role, config.model, dims);
        for (const auto& cuts : {placement.cuts, stored_cuts(placement, group.shape, dims)}) {
          if (cuts.empty()) continue;
          const CutTensor tensor{group.shape, cuts};
          if (std::find(tensors_.begin(), tensors_.end(), tensor) == tensors_.end()) {
            tensors_.push_back(tensor);
          }
        }
      }
    }
  }

  std::vector<int64_t> of(int64_t rank) const {
    const int64_t tp = dims_.index_on(Axis::kTp, rank);
    std::vector<int64_t> sizes = {dims_.index_on(Axis::kPp, rank), dims_.index_on(Axis::kCp, rank),
                                  part_of(tokens_, dims_.tp, tp).size(),
                                  part_of(vocabulary_, dims_.tp, tp).size()};
    for (const auto& [shape, cuts] : tensors_) {
      sizes.push_back(box_of(shape, cuts, dims_, rank).numel());
    }
    return sizes;
  }

 private:
  using CutTensor = std::pair<std::vector<int64_t>, std::vector<AxisCut>>;

  const ParallelDims& dims_;
  const int64_t tokens_, vocabulary_;
  std::vector<CutTensor> tensors_;
};

void plan_ranks(const Config& config, const PipelineSchedule& schedule,
                const std::vector<StageUnits>& stages, bool processes, Plan& plan) {
  std::vector<Likeness> likeness;
  for (const StageUnits& stage : stages) {
    likeness.emplace_back(config, plan.dims, plan.batch, stage);
  }
  std::map<std::vector<int64_t>, int64_t> planned;
  for (int64_t rank = 0; rank < plan.dims.world; ++rank) {
    const auto pp = static_cast<size_t>(plan.dims.index_on(Axis::kPp, rank));
    const auto [entry, is_new] = planned.emplace(likeness[pp].of(rank), rank);
    if (!is_new) {
      plan.memory.push_back(plan.memory[static_cast<size_t>(entry->second)]);
      plan.traffic.push_back(plan.traffic[static_cast<size_t>(entry->second)]);
      continue;
    }
    const StageUnits& stage = stages[pp];
    plan.memory.push_back(
        plan_memory(config, plan.dims, plan.batch, schedule, stage, rank, processes));
    auto traffic = plan_traffic(config, plan.dims, stage, plan.batch.micro_batches, rank);
    add_activation_traffic(config, plan.dims, plan.batch, plan.stages[pp], stage, rank, traffic);
    plan.traffic.push_back(std::move(traffic));
  }
}

// Each level as a run of its own: how full the ranks are and how long they wait depends on it.
std::vector<LevelPlan> plan_levels(const Config& config, const BatchPlan& batch, int64_t world,
                                   bool processes) {
  const BatchGrowth growth = batch_growth(config.training, batch);
  std::vector<LevelPlan> levels;
  if (!growth.grows()) return levels;
  for (const BatchLevel& level : batch_levels(growth, config.training.steps)) {
    Config alone = config;
    alone.training.rampup_batch_size.reset();
    alone.training.global_batch_size = level.batch;
    const Plan plan = make_plan(alone, world, processes, DataPlan{});
    LevelPlan& at = levels.emplace_back();
    at.level = level;
    at.micro_batches = plan.batch.micro_batches;
    for (const MemoryPlan& memory : plan.memory) {
      at.peak_memory = std::max(at.peak_memory, memory.peak);
    }
    if (plan.pipeline) at.idle_over_ideal = plan.pipeline->idle_over_ideal;
  }
  return levels;
}

// What the matrices of an optimizer that needs them whole add. How they are dealt differs between
// ranks that are alike otherwise.
void add_matrices(const Config& config, const std::vector<StageUnits>& stages, Plan& plan) {
  const int64_t of_stage = plan.dims.world / plan.dims.pp;
  for (size_t pp = 0; pp < stages.size(); ++pp) {
    const int64_t first = static_cast<int64_t>(pp) * of_stage;
    const auto deal = deal_matrices(config, plan.dims, stages[pp], first);
    if (!deal) continue;
    plan.matrices.resize(static_cast<size_t>(plan.dims.world));
    const std::vector<MatrixPlan> ranks = plan_matrices(config, *deal);
    for (size_t place = 0; place < ranks.size(); ++place) {
      const size_t rank = static_cast<size_t>(first) + place;
      plan.matrices[rank] = ranks[place];
      MemoryPlan& memory = plan.memory[rank];
      memory.update = std::max(memory.update, ranks[place].memory);
      memory.peak = std::max(memory.peak, memory.before_update + memory.update);
      if (ranks[place].sent == 0) continue;
      TrafficPlan::Count& sent = plan.traffic[rank][Axis::kWorld].operations["all_to_all"];
      sent.calls += 2 * ranks[place].rounds;
      sent.bytes += ranks[place].sent;
    }
  }
}

// The scales of blocks that cuts divide, where moments are kept in codes.
void add_block_scales(const Config& config, const std::vector<StageUnits>& stages, Plan& plan) {
  const int64_t ranks = plan.dims.world / plan.dims.pp;
  if (config.optimizer.moment_dtype != "int8" || ranks == 1) return;
  for (size_t pp = 0; pp < stages.size(); ++pp) {
    const int64_t first = static_cast<int64_t>(pp) * ranks;
    const OpenedMoments opened = plan_opened(config, plan.dims, stages[pp], first);
    for (int64_t rank = first; rank < first + ranks && !opened.shared.empty(); ++rank) {
      TrafficPlan::Count& sent =
          plan.traffic[static_cast<size_t>(rank)][Axis::kWorld].operations["all_reduce"];
      for (const int64_t shared : opened.shared) {
        ++sent.calls;
        sent.bytes += 2 * (ranks - 1) * shared * size_of(DType::kFloat32) / ranks;
      }
    }
  }
}

}  // namespace

Plan make_plan(const Config& config, int64_t world, bool processes, std::optional<DataPlan> data) {
  Plan plan;
  plan.model_type = config.model.model_type;
  plan.dims = derive_dims(config, world);
  plan.batch = make_batch_plan(config, plan.dims);
  plan.steps = config.training.steps;
  plan.seq_length = config.model.seq_length;
  plan.data = data ? std::move(*data) : plan_data(config, plan.batch);
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
  const PipelineSchedule schedule = proven_schedule(config, plan.batch.micro_batches);
  plan_ranks(config, schedule, stages, processes, plan);
  add_matrices(config, stages, plan);
  add_block_scales(config, stages, plan);
  plan.context = plan_context(config, plan.dims);
  plan.levels = plan_levels(config, plan.batch, world, processes);
  plan.experts = plan_experts(config, plan.dims, plan.batch, plan.stages);
  if (plan.dims.pp > 1) plan.pipeline = plan_pipeline(config, schedule, plan.stages);
  return plan;
}

}  // namespace tessera
