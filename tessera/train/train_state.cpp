#include "tessera/train/train_state.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tessera/comm/gather_text.h"
#include "tessera/config/mindformers_name.h"

namespace tessera {
namespace {

bool is_named(const std::vector<std::string>& patterns, const std::string& name) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) {
    return name.find(pattern) != std::string::npos ||
           mindformers_name(name).find(pattern) != std::string::npos;
  });
}

std::string number(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), pattern, value);
  return text;
}

// JSON has no word for what is not finite.
std::string json(double value) {
  return std::isfinite(value) ? number("%.17g", value) : "\"" + number("%g", value) + "\"";
}

template <typename Values, typename Text>
std::string joined(const Values& values, const Text& text) {
  std::string all;
  for (const auto& value : values) all += (all.empty() ? "" : ", ") + text(value);
  return all;
}

double value_of(const at::Tensor& scalar) { return scalar.item<double>(); }

}  // namespace

TrainStateMonitor::TrainStateMonitor(const TrainStateConfig& config, ParallelModel& model)
    : config_(config) {
  if (config_.local_norm.empty() && config_.device_norm.empty()) return;
  for (const auto& unit : model.units) {
    unit->observe_gradients([this](const ParameterPart& part, const at::Tensor& gradient) {
      if (!is_named(config_.local_norm, part.name) && !is_named(config_.device_norm, part.name)) {
        return;
      }
      const auto [found, is_new] = norms_.try_emplace(part.name);
      if (is_new) names_.push_back(part.name);
      found->second.push_back(gradient.to(at::kDouble).square().sum().sqrt());
    });
  }
}

bool TrainStateMonitor::on() const {
  return config_.local_loss || config_.device_loss || !config_.local_norm.empty() ||
         !config_.device_norm.empty();
}

std::string TrainStateMonitor::end_step(const TrainStateStep& step, const Sinks& sinks,
                                        const DeviceMesh& mesh) {
  lines_.clear();
  const std::string begin = "\"step\": " + std::to_string(step.number);
  std::string own = "{\"rank\": " + std::to_string(mesh.rank());

  // The mean over the labels of the micro-batch, divided by the number of micro-batches: the sink
  // holds its sum divided by the labels of the global batch.
  std::vector<double> losses;
  if (config_.local_loss) {
    for (const auto& [micro_batch, loss] : sinks.loss) {
      const int64_t labels = step.micro_batch_labels.at(static_cast<size_t>(micro_batch));
      const double sum = value_of(loss) * static_cast<double>(step.labels);
      const auto parts = static_cast<double>(labels * std::ssize(step.micro_batch_labels));
      losses.push_back(labels == 0 ? 0.0 : sum / parts);
      lines_.push_back("{" + begin + ", \"micro_step\": " + std::to_string(losses.size()) +
                       ", \"local_loss\": " + number("%.6f", losses.back()) + "}");
    }
    own += ", \"local_loss\": [" + joined(losses, json) + "]";
  }
  if (config_.device_loss) {
    lines_.push_back("{" + begin +
                     (losses.empty() ? "" : ", \"micro_step\": " + std::to_string(losses.size())) +
                     ", \"device_loss\": " + number("%.6f", step.loss) + "}");
  }

  const auto line_of_norm = [&](const char* kind, const std::string& name, double value) {
    lines_.push_back(std::string("{ \"") + kind + "\": " + name + ": " + number("%10.6f", value) +
                     " }");
  };
  std::string local, device;
  for (const std::string& name : names_) {
    if (!is_named(config_.local_norm, name)) continue;
    local += (local.empty() ? "" : ", ") + ("\"" + name + "\": [") +
             joined(norms_[name], [](const at::Tensor& norm) { return json(value_of(norm)); }) +
             "]";
  }
  if (!local.empty()) {
    own += ", \"local_norm\": {" + local + "}";
    for (size_t m = 0; m < step.micro_batch_labels.size(); ++m) {
      lines_.push_back("{ " + begin + ", \"micro_step\": " + std::to_string(m + 1) + " }");
      for (const std::string& name : names_) {
        if (is_named(config_.local_norm, name) && m < norms_[name].size()) {
          line_of_norm("local_norm", name, value_of(norms_[name][m]));
        }
      }
    }
  }
  for (const std::string& name : names_) {
    if (!is_named(config_.device_norm, name) || norms_[name].empty()) continue;
    const double last = value_of(norms_[name].back());
    if (device.empty()) lines_.push_back("{ " + begin + " }");
    line_of_norm("device_norm", name, last);
    device += (device.empty() ? "\"" : ", \"") + name + "\": " + json(last);
  }
  if (!device.empty()) own += ", \"device_norm\": {" + device + "}";
  names_.clear();
  norms_.clear();

  const std::vector<std::string> all = gather_texts_to(0, mesh[Axis::kWorld], own + "}");
  if (mesh.rank() != 0) return "";
  return "{" + (config_.device_loss ? "\"device_loss\": " + json(step.loss) + ", " : "") +
         "\"ranks\": [" + joined(all, [](const std::string& text) { return text; }) + "]}";
}

}  // namespace tessera
