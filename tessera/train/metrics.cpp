#include "tessera/train/metrics.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/config/load.h"

namespace tessera {
namespace {

template <typename... Args>
std::string format(const char* pattern, Args... args) {
  char text[512];
  std::snprintf(text, sizeof(text), pattern, args...);
  return text;
}

std::vector<std::string> first_lines(const std::string& path, int64_t count) {
  std::vector<std::string> lines;
  std::ifstream in(path);
  std::string line;
  while (static_cast<int64_t>(lines.size()) < count && std::getline(in, line)) lines.push_back(line);
  return lines;
}

std::string time_left(double seconds) {
  const auto s = static_cast<int64_t>(seconds + 0.5);
  return format("%02ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
}

}  // namespace

std::string console_line(const StepMetrics& m, int64_t steps) {
  return format(
      "{ step:[%5ld/%5ld], loss: %10.6f, per_step_time: %6.0fms, lr: %10.6e, grad_norm: %10.6f, "
      "throughput: %6.2fT }",
      m.step, steps, m.loss, m.seconds * 1e3, m.lr, m.grad_norm, m.tflops_per_rank);
}

std::string json_line(const StepMetrics& m) {
  return format(
      "{\"step\": %ld, \"loss\": %.17g, \"grad_norm\": %.17g, \"lr\": %.17g, \"tokens\": %ld, "
      "\"samples\": %ld, \"seconds\": %.17g, \"tokens_per_second\": %.17g, "
      "\"tflops_per_rank\": %.17g, \"updated\": %s}",
      m.step, m.loss, m.grad_norm, m.lr, m.tokens, m.samples, m.seconds, m.tokens_per_second,
      m.tflops_per_rank, m.updated ? "true" : "false");
}

MetricsWriter::MetricsWriter(const Config& config, int64_t kept_steps)
    : steps_(config.training.steps), terminal_(isatty(STDOUT_FILENO) == 1) {
  const std::filesystem::path directory = config.output_dir;
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  const std::string path = (directory / "metrics.jsonl").string();
  const std::vector<std::string> kept = first_lines(path, kept_steps);
  file_.open(path);
  std::ofstream resolved(directory / "config.yaml");
  resolved << to_yaml(config);
  if (!file_ || !resolved.flush()) {
    throw ConfigError("output_dir = " + config.output_dir + ": cannot write to it");
  }
  for (const std::string& line : kept) file_ << line << '\n';
}

void MetricsWriter::write(const StepMetrics& metrics) {
  file_ << json_line(metrics) << std::endl;
  seconds_ += metrics.seconds;
  ++written_;
  const std::string clear = terminal_ ? "\r\033[K" : "";
  std::printf("%s%s\n", clear.c_str(), console_line(metrics, steps_).c_str());
  if (terminal_ && metrics.step < steps_) {
    const double left = seconds_ / static_cast<double>(written_) *
                        static_cast<double>(steps_ - metrics.step);
    std::printf("%3ld %%  %.0f tokens/s  %s left", metrics.step * 100 / steps_,
                metrics.tokens_per_second, time_left(left).c_str());
  }
  std::fflush(stdout);
}

}  // namespace tessera
