#include "tessera/train/run_report.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>

#include "tessera/planner/bytes_text.h"
#include "tessera/planner/plan.h"

namespace tessera {
namespace {

std::string line(const std::string& what, int64_t planned, int64_t measured) {
  char text[128];
  const double difference =
      planned == 0 ? 0.0
                   : 100.0 * (static_cast<double>(measured) / static_cast<double>(planned) - 1.0);
  std::snprintf(text, sizeof(text), "  %-32s %10s %10s %+7.1f %%\n", what.c_str(),
                bytes_text(planned).c_str(), bytes_text(measured).c_str(), difference);
  return text;
}

}  // namespace

RunReport::RunReport(const DeviceMesh& mesh) {
  for (const auto& [axis, group] : mesh.groups()) before_[axis] = group.stats().total_bytes();
}

void RunReport::add(const StepMetrics& metrics) {
  ++steps_;
  peak_memory_ = std::max(peak_memory_, metrics.peak_memory);
}

std::string RunReport::text(const Config& config, const DeviceMesh& mesh) const {
  if (steps_ == 0) return "";
  at::Tensor sent = at::zeros({static_cast<int64_t>(before_.size())}, at::kLong);
  int64_t at = 0;
  for (const auto& [axis, before] : before_) {
    sent[at++] = (mesh[axis].stats().total_bytes() - before) / steps_;
  }
  mesh["world"].all_reduce({sent}, ReduceOp::kMax).wait();
  if (mesh.rank() != 0) return "";

  const Plan plan = make_plan(config, mesh.dims().world);
  int64_t peak = 0;
  std::map<std::string, int64_t> planned;
  for (const MemoryPlan& memory : plan.memory) peak = std::max(peak, memory.peak);
  for (const auto& axes : plan.traffic) {
    for (const auto& [axis, traffic] : axes) {
      planned[axis] = std::max(planned[axis], traffic.bytes());
    }
  }
  char head[128];
  std::snprintf(head, sizeof(head), "%-34s %10s %10s\n", "of the rank with most", "planned",
                "measured");
  std::string text = head + line("peak memory", peak, peak_memory_);
  at = 0;
  for (const auto& [axis, before] : before_) {
    const int64_t measured = sent[at++].item<int64_t>();
    if (planned.contains(axis)) {
      text += line("sent a step over " + axis, planned.at(axis), measured);
    }
  }
  return text;
}

}  // namespace tessera
