#include "tessera/train/metrics.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/config/load.h"

namespace tessera {
namespace {

template <typename... Args>
std::string format(const char* pattern, Args... args) {
  char text[512];
  std::snprintf(text, sizeof(text), pattern, args...);
  return text;
}

// The lines of a metrics.jsonl up to `samples`; a line that a killed run left half written ends it.
std::vector<std::string> lines_up_to(const std::string& path, int64_t samples) {
  constexpr std::string_view kKey = "\"samples\": ";
  std::vector<std::string> lines;
  std::ifstream in(path);
  for (std::string line; samples > 0 && std::getline(in, line);) {
    const size_t at = line.find(kKey);
    if (at == std::string::npos || !line.ends_with('}')) break;
    if (std::strtoll(line.c_str() + at + kKey.size(), nullptr, 10) > samples) break;
    lines.push_back(line);
  }
  return lines;
}

std::string time_left(double seconds) {
  const auto s = static_cast<int64_t>(seconds + 0.5);
  return format("%02ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
}

}  // namespace

std::string console_line(const StepMetrics& m, int64_t steps) {
  std::string extra;
  if (m.load_balancing_loss) {
    extra += format("load_balancing_loss: %10.6f, ", *m.load_balancing_loss);
  }
  if (m.mtp_loss) extra += format("mtp_1_loss: %10.6f, ", *m.mtp_loss);
  return format(
      "{ step:[%5ld/%5ld], loss: %10.6f, per_step_time: %6.0fms, %slr: %10.6e, "
      "grad_norm: %10.6f, throughput: %6.2fT }",
      m.step, steps, m.loss, m.seconds * 1e3, extra.c_str(), m.lr, m.grad_norm, m.tflops_per_rank);
}

namespace {

std::string json_memory(const StepMetrics& m) {
  std::string ranks;
  for (const int64_t bytes : m.peak_memory_of_rank) {
    ranks.append(ranks.empty() ? "" : ", ").append(std::to_string(bytes));
  }
  return format(", \"memory_bytes\": %ld, \"peak_memory_bytes\": %ld", m.memory, m.peak_memory) +
         ", \"peak_memory_bytes_of_rank\": [" + ranks + "]";
}

std::string json_number(const char* name, const std::optional<double>& value) {
  return value ? format(", \"%s\": %.17g", name, *value) : "";
}

// Per layer with experts: the counts, and how far they are from even.
std::string json_experts(const StepMetrics& m) {
  if (m.moe_layers.empty()) return "";
  std::string counts, load;
  for (size_t i = 0; i < m.moe_layers.size(); ++i) {
    const std::vector<int64_t>& layer = m.tokens_per_expert[i];
    const auto [coldest, hottest] = std::minmax_element(layer.begin(), layer.end());
    int64_t sum = 0;
    counts += i == 0 ? "[" : ", [";
    for (size_t e = 0; e < layer.size(); ++e) {
      sum += layer[e];
      counts += (e == 0 ? "" : ", ") + std::to_string(layer[e]);
    }
    counts += "]";
    const double mean = static_cast<double>(sum) / static_cast<double>(layer.size());
    load += format(
        "%s{\"layer\": %ld, \"max_over_mean\": %.6g, \"coldest\": %ld, \"hottest\": %ld}",
        i == 0 ? "" : ", ", m.moe_layers[i], sum == 0 ? 0.0 : static_cast<double>(*hottest) / mean,
        static_cast<long>(coldest - layer.begin()), static_cast<long>(hottest - layer.begin()));
  }
  return ", \"tokens_per_expert\": [" + counts + "], \"expert_load\": [" + load + "]";
}

}  // namespace

std::string json_line(const StepMetrics& m) {
  return format(
             "{\"step\": %ld, \"loss\": %.17g, \"grad_norm\": %.17g, \"lr\": %.17g, \"tokens\": "
             "%ld, "
             "\"samples\": %ld, \"seconds\": %.17g, \"tokens_per_second\": %.17g, "
             "\"tflops_per_rank\": %.17g, \"updated\": %s",
             m.step, m.loss, m.grad_norm, m.lr, m.tokens, m.samples, m.seconds, m.tokens_per_second,
             m.tflops_per_rank, m.updated ? "true" : "false") +
         json_number("mtp_1_loss", m.mtp_loss) + json_number("aux_loss", m.aux_loss) +
         json_number("load_balancing_loss", m.load_balancing_loss) +
         json_number("z_loss", m.z_loss) + json_memory(m) + json_experts(m) + "}";
}

MetricsWriter::MetricsWriter(const Config& config, int64_t kept_samples)
    : steps_(config.training.steps), terminal_(isatty(STDOUT_FILENO) == 1) {
  const std::filesystem::path directory = config.output_dir;
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  path_ = (directory / "metrics.jsonl").string();
  const std::vector<std::string> kept = lines_up_to(path_, kept_samples);
  // In a file of its own until it holds all that is kept: a run may be killed at any moment.
  const std::string part = path_ + ".part";
  errno = 0;
  file_.open(part);
  for (const std::string& line : kept) file_ << line << '\n';
  if (file_.flush()) std::filesystem::rename(part, path_, error);
  std::ofstream resolved(directory / "config.yaml");
  resolved << to_yaml(config);
  if (!file_ || error || !resolved.flush()) {
    throw ConfigError("output_dir = " + config.output_dir +
                      ": cannot write to it: " + (error ? error.message() : std::strerror(errno)));
  }
}

void MetricsWriter::write(const StepMetrics& metrics) {
  errno = 0;
  file_ << json_line(metrics) << std::endl;
  if (!file_ && !lost_) {
    lost_ = true;
    log_warning(path_ + ": cannot be written (" + std::strerror(errno) + "): step " +
                std::to_string(metrics.step) + " and all after it are not in it");
  }
  seconds_ += metrics.seconds;
  ++written_;
  const std::string clear = terminal_ ? "\r\033[K" : "";
  std::printf("%s%s\n", clear.c_str(), console_line(metrics, steps_).c_str());
  if (terminal_ && metrics.step < steps_) {
    const double left =
        seconds_ / static_cast<double>(written_) * static_cast<double>(steps_ - metrics.step);
    std::printf("%3ld %%  %.0f tokens/s  %s left", metrics.step * 100 / steps_,
                metrics.tokens_per_second, time_left(left).c_str());
  }
  std::fflush(stdout);
}

}  // namespace tessera
