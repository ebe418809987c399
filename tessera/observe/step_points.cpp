#include "tessera/observe/step_points.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

// The tag of a curve and the key of metrics.jsonl that it draws.
struct Curve {
  const char* tag;
  const char* key;
};
constexpr Curve kCurves[] = {
    {"loss", "loss"},
    {"load-balancing-loss", "load_balancing_loss"},
    {"grad-norm", "grad_norm"},
    {"throughput", "tflops_per_rank"},
    {"batch-size", "global_batch_size"},
    {"mtp-1-loss", "mtp_1_loss"},
    {"aux-loss", "aux_loss"},
    {"z-loss", "z_loss"},
    {"tokens-per-second", "tokens_per_second"},
    {"memory/bytes", "memory_bytes"},
    {"memory/peak-bytes", "peak_memory_bytes"},
};

class Points {
 public:
  void add(const std::string& tag, const Json& value) {
    if (value.is_number()) scalars.push_back({tag, value.get<double>()});
  }
  // All numbers inside of `value`, by their path.
  void add_all(const std::string& tag, const Json& value) {
    if (value.is_object()) {
      for (const auto& [key, item] : value.items()) add_all(tag + "/" + key, item);
    } else {
      add(tag, value);
    }
  }
  std::vector<EventScalar> scalars;
};

// That of the last rank's last micro-batch.
void add_local_loss(const Json& line, Points& points) {
  const auto state = line.find("train_state");
  if (state == line.end() || !state->contains("ranks")) return;
  const Json& ranks = (*state)["ranks"];
  if (!ranks.is_array() || ranks.empty() || !ranks.back().contains("local_loss")) return;
  const Json& losses = ranks.back()["local_loss"];
  if (losses.is_array() && !losses.empty()) points.add("local_loss", losses.back());
}

bool is_watched(const MoeMonitorConfig& moe, int64_t layer) {
  return !moe.target_layers || std::ranges::count(*moe.target_layers, layer) > 0;
}

void add_experts(const Json& line, const MoeMonitorConfig& moe, Points& points,
                 std::vector<EventHistogram>& histograms) {
  if (!line.contains("tokens_per_expert") || !line.contains("expert_load")) return;
  const Json& loads = line["expert_load"];
  const Json& counts = line["tokens_per_expert"];
  const int64_t step = line["step"];
  const bool due =
      step % std::max<int64_t>(1, moe.save_tokens_per_expert_interval.value_or(1)) == 0;
  for (size_t i = 0; i < loads.size() && i < counts.size(); ++i) {
    const int64_t layer = loads[i].at("layer");
    if (!is_watched(moe, layer)) continue;
    const std::string tag = "experts/layer-" + std::to_string(layer);
    const auto tokens = counts[i].get<std::vector<int64_t>>();
    points.add(tag + "/max-over-mean", loads[i].at("max_over_mean"));
    points.add(tag + "/without-tokens", std::ranges::count(tokens, 0));
    if (due) histograms.push_back({tag + "/tokens-per-expert", tokens});
  }
}

StepPoints points_of(const Json& line, const StepPointsOptions& options, int64_t skipped) {
  Points points;
  StepPoints result;
  for (const Curve& curve : kCurves) {
    if (line.contains(curve.key)) points.add(curve.tag, line[curve.key]);
  }
  points.add("loss-scale", 1.0);
  points.add("iteration-time", static_cast<int64_t>(line.at("seconds").get<double>() * 1e3));
  const int64_t step = line.at("step");
  if (options.learning_rate) points.add("learning-rate", options.learning_rate(step - skipped));
  add_local_loss(line, points);
  if (options.device_loss) points.add("device_loss", line.at("loss"));
  if (line.contains("eval")) points.add_all("eval", line["eval"]);
  add_experts(line, options.moe, points, result.by_step.histograms);
  result.by_step.x = step;
  result.by_samples.x = line.at("samples");
  result.by_samples.scalars = points.scalars;
  for (EventScalar& scalar : result.by_samples.scalars) scalar.tag += " vs samples";
  result.by_step.scalars = std::move(points.scalars);
  return result;
}

}  // namespace

std::optional<StepPoints> step_points(const std::string& line, const StepPointsOptions& options,
                                      int64_t& skipped) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("step") || !json.contains("loss")) return {};
  try {
    skipped = json.value("skipped", skipped);
    return points_of(json, options, skipped);
  } catch (const Json::exception&) {
    return {};
  }
}

}  // namespace tessera
