#include "tessera/planner/seconds/seconds_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace tessera {
namespace {

constexpr size_t kStagesShown = 8;

// "products 61.2 %, fsdp 8.1 %": what takes at least a thousandth.
std::string shares(const SpentSeconds& spent, double step) {
  std::string text;
  for (size_t i = 0; i < kSpentKinds; ++i) {
    const double share = spent.of[i] / step;
    if (share < 0.001) continue;
    text += fmt::format("{}{} {:.1f} %", text.empty() ? "" : ", ", spent_name(i), 100 * share);
  }
  return text;
}

}  // namespace

std::string seconds_text(double seconds) {
  if (seconds < 1.0) return fmt::format("{:.3g} ms", 1000 * seconds);
  if (seconds < 120) return fmt::format("{:.3g} s", seconds);
  const auto minutes = static_cast<int64_t>(seconds / 60);
  if (minutes < 120) return fmt::format("{} min", minutes);
  if (minutes < 48 * 60) return fmt::format("{} h {} min", minutes / 60, minutes % 60);
  return fmt::format("{:.1f} days", seconds / 86400);
}

std::string to_text(const SecondsPlan& plan) {
  std::string text = fmt::format(
      "seconds  a step {}: {:.4g} tokens a second, MFU {:.1f} %, HFU {:.1f} %; the run {}\n",
      seconds_text(plan.step), plan.tokens_per_second, 100 * plan.mfu, 100 * plan.hfu,
      seconds_text(plan.run));
  text += fmt::format("         by {}{}\n", plan.machine,
                      plan.measured ? "" : " (numbers that others published, not measured here)");
  if (!plan.warning.empty()) text += "         " + plan.warning + "\n";
  for (size_t pp = 0; pp < plan.stages.size() && pp < kStagesShown; ++pp) {
    text += "         ";
    if (plan.stages.size() > 1) text += fmt::format("stage {}: ", pp);
    text += shares(plan.stages[pp], plan.step) + "\n";
  }
  if (plan.stages.size() > kStagesShown) {
    text += fmt::format("         … {} stages (all: --json)\n", plan.stages.size());
  }
  if (plan.save > 0) text += "         a checkpoint " + seconds_text(plan.save) + "\n";
  return text;
}

std::string to_json(const SecondsPlan& plan) {
  nlohmann::ordered_json json = {
      {"machine", plan.machine}, {"measured", plan.measured},
      {"step", plan.step},       {"tokens_per_second", plan.tokens_per_second},
      {"mfu", plan.mfu},         {"hfu", plan.hfu},
      {"save", plan.save},       {"run", plan.run}};
  if (!plan.warning.empty()) json["warning"] = plan.warning;
  for (const SpentSeconds& stage : plan.stages) {
    nlohmann::ordered_json spent;
    for (size_t i = 0; i < kSpentKinds; ++i) spent[std::string(spent_name(i))] = stage.of[i];
    json["stages"].push_back(spent);
  }
  return json.dump();
}

}  // namespace tessera
