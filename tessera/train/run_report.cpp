#include "tessera/train/run_report.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "tessera/base/error.h"
#include "tessera/planner/bytes_text.h"
#include "tessera/planner/machine/machine_file.h"
#include "tessera/planner/plan.h"
#include "tessera/planner/seconds/seconds_plan.h"
#include "tessera/planner/seconds/seconds_text.h"

namespace tessera {
namespace {

std::string line(const std::string& what, int64_t planned, int64_t measured,
                 std::string (*text_of)(int64_t) = bytes_text) {
  char text[128];
  const double difference =
      planned == 0 ? 0.0
                   : 100.0 * (static_cast<double>(measured) / static_cast<double>(planned) - 1.0);
  std::snprintf(text, sizeof(text), "  %-32s %10s %10s %+7.1f %%\n", what.c_str(),
                text_of(planned).c_str(), text_of(measured).c_str(), difference);
  return text;
}

std::string flop_text(int64_t flops) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g GFLOP", static_cast<double>(flops) / 1e9);
  return text;
}

// Of the rank with most: what an update keeps, works and needs beside what was there before it.
struct UpdateMost {
  int64_t moments = 0, flops = 0, memory = 0;
};

UpdateMost planned_update(const Plan& plan) {
  UpdateMost most;
  for (const MemoryPlan& memory : plan.memory) {
    most.moments = std::max(most.moments, memory.moments);
    most.memory = std::max(most.memory, memory.update);
  }
  for (const MatrixPlan& matrices : plan.matrices) {
    most.flops = std::max(most.flops, static_cast<int64_t>(std::llround(matrices.flops)));
  }
  return most;
}

// What an optimizer does not have has no line.
std::string update_text(const UpdateMost& planned, const UpdateMost& measured) {
  std::string text;
  if (planned.moments > 0) text += line("moments", planned.moments, measured.moments);
  if (planned.flops > 0) {
    text += line("products of an update", planned.flops, measured.flops, flop_text);
  }
  if (planned.memory > 0) {
    text += line("memory of an update, beside", planned.memory, measured.memory);
  }
  return text;
}

// Without a machine file at its place, or with a wrong one, there is nothing to compare.
std::string seconds_line(const Config& config, int64_t world, bool processes, double measured) {
  std::optional<Machine> machine;
  try {
    machine = find_machine({});
  } catch (const ConfigError&) {
  }
  if (!machine || config.model.model_type.empty()) return "";
  const double planned = plan_seconds(config, world, *machine, processes).step;
  char text[128];
  std::snprintf(text, sizeof(text), "  %-32s %10s %10s %+7.1f %%\n", "seconds of a step",
                seconds_text(planned).c_str(), seconds_text(measured).c_str(),
                100.0 * (measured / planned - 1.0));
  return text;
}

}  // namespace

RunReport::RunReport(const DeviceMesh& mesh, const PipelineRuntime& pipeline,
                     const UpdateUse& update)
    : mesh_(mesh), pipeline_(pipeline), update_(update) {
  for (const auto& [axis, group] : mesh.groups()) before_[axis] = group.stats().total_bytes();
}

void RunReport::add(const StepMetrics& metrics) {
  if (++steps_ == 1) {
    first_step_ = pipeline_.times();  // which warms up
  } else {
    seconds_ += metrics.seconds;
  }
  peak_memory_ = std::max(peak_memory_, metrics.peak_memory);
}

// The stage that computes first and last is in run() all the time; what another rank does not spend
// in its own calls meanwhile it idles.
double RunReport::idle_share() const {
  const PipelineRuntime::Times& all = pipeline_.times();
  const double running = all.running - first_step_.running;
  const double busy = running - (all.waiting - first_step_.waiting);
  const at::Tensor longest = at::scalar_tensor(running, at::kDouble);
  const at::Tensor sum = at::scalar_tensor(busy, at::kDouble);
  const ProcessGroup& world = mesh_[Axis::kWorld];
  world.all_reduce({longest}, ReduceOp::kMax).wait();
  world.all_reduce({sum}, ReduceOp::kSum).wait();
  return 1.0 - sum.item<double>() / world.size() / longest.item<double>();
}

std::string RunReport::text(const Config& config) const {
  if (steps_ == 0) return "";
  at::Tensor sent = at::zeros({static_cast<int64_t>(before_.size()) + 3}, at::kLong);
  int64_t at = 0;
  for (const auto& [axis, before] : before_) {
    sent[at++] = (mesh_[axis].stats().total_bytes() - before) / steps_;
  }
  sent[at++] = update_.moments;
  sent[at++] = static_cast<int64_t>(std::llround(update_.flops));
  sent[at] = update_.memory;
  mesh_[Axis::kWorld].all_reduce({sent}, ReduceOp::kMax).wait();
  const bool idles = mesh_.dims().pp > 1 && steps_ > 1;
  const double idle = idles ? idle_share() : 0.0;
  if (mesh_.rank() != 0) return "";

  const bool processes = mesh_[Axis::kWorld].overlaps_compute() && mesh_.device().is_cpu();
  const Plan plan = make_plan(config, mesh_.dims().world, processes);
  int64_t peak = 0;
  std::map<Axis, int64_t> planned;
  for (const MemoryPlan& memory : plan.memory) peak = std::max(peak, memory.peak);
  for (const auto& axes : plan.traffic) {
    for (const auto& [axis, traffic] : axes) {
      planned[axis] = std::max(planned[axis], traffic.bytes());
    }
  }
  char head[128];
  std::snprintf(head, sizeof(head), "%-34s %10s %10s\n", "of the rank with most", "planned",
                "measured");
  const int64_t* values = sent.const_data_ptr<int64_t>();
  const int64_t* update = values + before_.size();
  std::string text = head + line("peak memory", peak, peak_memory_) +
                     update_text(planned_update(plan), {update[0], update[1], update[2]});
  at = 0;
  for (const auto& [axis, before] : before_) {
    const int64_t measured = values[at++];
    // Of a growing batch no step is as planned in the end.
    if (planned.contains(axis) && plan.levels.empty()) {
      text += line("sent a step over " + std::string(axis_name(axis)), planned.at(axis), measured);
    }
  }
  if (idles && plan.pipeline && plan.levels.empty()) {
    const std::vector<double>& shares = plan.pipeline->idle_share;
    const double planned_idle =
        std::accumulate(shares.begin(), shares.end(), 0.0) / static_cast<double>(shares.size());
    char last[128];
    std::snprintf(last, sizeof(last), "  %-32s %8.1f %% %8.1f %%\n", "idle time of the pipeline",
                  100.0 * planned_idle, 100.0 * idle);
    text += last;
  }
  if (steps_ > 1 && plan.levels.empty()) {
    text += seconds_line(config, mesh_.dims().world, processes,
                         seconds_ / static_cast<double>(steps_ - 1));
  }
  return text;
}

}  // namespace tessera
