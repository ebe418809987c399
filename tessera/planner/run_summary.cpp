#include "tessera/planner/run_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "tessera/layout/axis.h"
#include "tessera/planner/bytes_text.h"
#include "tessera/planner/seconds/seconds_text.h"

namespace tessera {
namespace {

std::string layout_text(const ParallelDims& d) {
  std::string text = std::to_string(d.world) + (d.world == 1 ? " rank" : " ranks");
  for (const Axis axis :
       {Axis::kDpReplicate, Axis::kDpShard, Axis::kCp, Axis::kTp, Axis::kPp, Axis::kEp}) {
    if (d.size(axis) > 1) text += fmt::format(", {} {}", axis_name(axis), d.size(axis));
  }
  return text;
}

std::string time_text(int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  localtime_r(&time, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M", &parts);
  return text.data();
}

}  // namespace

std::string run_summary(const Plan& plan, int64_t now) {
  const BatchPlan& b = plan.batch;
  int64_t peak = 0, state = 0;
  for (const MemoryPlan& memory : plan.memory) {
    peak = std::max(peak, memory.peak);
    state = std::max(state, memory.weights + memory.gradients + memory.moments);
  }
  std::string text = "layout      " + layout_text(plan.dims) + "\n";
  text += fmt::format("batch       {} sequences of {} tokens: {} x {} x {} micro-batches\n",
                      b.effective_batch, plan.seq_length, b.batch_ranks, b.local_batch,
                      b.micro_batches);
  text += fmt::format("parameters  {} ({})\n", plan.parameters, plan.model_type);
  text += fmt::format("memory      {} a rank at most, {} of it weights, gradients and moments\n",
                      bytes_text(peak), bytes_text(state));
  if (!plan.seconds) {
    return text + "step        no machine file: `tessera calibrate` makes one\n" +
           fmt::format("end         after {} steps\n", plan.steps);
  }
  const SecondsPlan& s = *plan.seconds;
  text += fmt::format("step        {} predicted: {:.4g} tokens a second, MFU {:.1f} %{}\n",
                      seconds_text(s.step), s.tokens_per_second, 100 * s.mfu,
                      s.warning.empty() ? "" : "; " + s.warning);
  return text + fmt::format("end         {} steps in {}: about {}\n", plan.steps,
                            seconds_text(s.run), time_text(now + static_cast<int64_t>(s.run)));
}

}  // namespace tessera
