#include "tessera/train/metrics.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/config/load.h"
#include "tessera/optim/lr_schedule.h"

namespace tessera {
namespace {

template <typename... Args>
std::string format(const char* pattern, Args... args) {
  char text[512];
  std::snprintf(text, sizeof(text), pattern, args...);
  return text;
}

// The lines of a metrics.jsonl up to `samples`; a line that a killed run left half written ends it.
// Of a run that starts at 0 nothing is kept, but for what is said of its restarts.
std::vector<std::string> lines_up_to(const std::string& path, int64_t samples, bool restarted) {
  constexpr std::string_view kKey = "\"samples\": ";
  std::vector<std::string> lines;
  std::ifstream in(path);
  for (std::string line; (samples > 0 || restarted) && std::getline(in, line);) {
    const size_t at = line.find(kKey);
    if (at == std::string::npos || !line.ends_with('}')) break;
    if (std::strtoll(line.c_str() + at + kKey.size(), nullptr, 10) > samples) break;
    lines.push_back(line);
  }
  return lines;
}

double largest(const std::vector<std::vector<double>>& by_layer) {
  double most = -std::numeric_limits<double>::infinity();
  for (const std::vector<double>& layer : by_layer) {
    for (const double value : layer) most = std::max(most, value);
  }
  return most;
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
  if (m.grown_batch) extra += format("global_batch_size: %5ld, ", m.batch);
  if (!m.max_logits.empty()) extra += format("max_logit: %10.4f, ", largest(m.max_logits));
  if (m.skipped_in_row > 0) extra += format("skipped in a row: %ld, ", m.skipped_in_row);
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

// JSON has no word for what is not finite: "nan", "inf", "-inf".
std::string json_value(double value) {
  return std::isfinite(value) ? format("%.17g", value) : format("\"%g\"", value);
}

std::string json_number(const char* name, const std::optional<double>& value) {
  return value ? format(", \"%s\": ", name) + json_value(*value) : "";
}

std::string json_skipped(const StepMetrics& m) {
  if (m.skipped_in_row == 0) return "";
  return format(", \"skipped_in_row\": %ld, \"skipped\": %ld", m.skipped_in_row, m.skipped);
}

// By layer and head.
std::string json_max_logits(const StepMetrics& m) {
  if (m.max_logits.empty()) return "";
  std::string layers;
  for (const std::vector<double>& layer : m.max_logits) {
    std::string heads;
    for (const double logit : layer) heads += (heads.empty() ? "" : ", ") + json_value(logit);
    layers += (layers.empty() ? "[" : ", [") + heads + "]";
  }
  return ", \"max_logits\": [" + layers + "]";
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
        "%s{\"layer\": %ld, \"max_over_mean\": %.6g, \"without_tokens\": %ld, \"coldest\": %ld, "
        "\"hottest\": %ld}",
        i == 0 ? "" : ", ", m.moe_layers[i], sum == 0 ? 0.0 : static_cast<double>(*hottest) / mean,
        static_cast<long>(std::ranges::count(layer, 0)), static_cast<long>(coldest - layer.begin()),
        static_cast<long>(hottest - layer.begin()));
  }
  return ", \"tokens_per_expert\": [" + counts + "], \"expert_load\": [" + load + "]";
}

}  // namespace

std::string console_line(const EvalMetrics& e) {
  return format("{ eval %s: loss: %10.6f, perplexity: %10.4f, ", e.name.c_str(), e.loss,
                e.perplexity) +
         (e.bits_per_byte ? format("bits_per_byte: %8.5f, ", *e.bits_per_byte) : "") +
         format("tokens: %ld, %.0fms }", e.tokens, e.seconds * 1e3);
}

std::string json_object(const EvalMetrics& e) {
  return "{\"loss\": " + json_value(e.loss) + ", \"perplexity\": " + json_value(e.perplexity) +
         json_number("bits_per_byte", e.bits_per_byte) +
         format(", \"tokens\": %ld, \"samples\": %ld, \"seconds\": %.6g}", e.tokens, e.samples,
                e.seconds);
}

std::string json_object(const std::vector<EvalMetrics>& evaluations) {
  std::string sets;
  for (const EvalMetrics& e : evaluations) {
    sets += (sets.empty() ? "\"" : ", \"") + e.name + "\": " + json_object(e);
  }
  return "{" + sets + "}";
}

std::string console_lines(const std::vector<EvalMetrics>& evaluations) {
  std::string lines;
  for (const EvalMetrics& e : evaluations) lines += console_line(e) + "\n";
  return lines;
}

std::string json_line(const StepMetrics& m) {
  return format(
             "{\"step\": %ld, \"loss\": %s, \"grad_norm\": %s, \"lr\": %.17g, \"tokens\": %ld, "
             "\"samples\": %ld, \"seconds\": %.17g, \"tokens_per_second\": %.17g, "
             "\"tflops_per_rank\": %.17g, \"updated\": %s, \"global_batch_size\": %ld",
             m.step, json_value(m.loss).c_str(), json_value(m.grad_norm).c_str(), m.lr, m.tokens,
             m.samples, m.seconds, m.tokens_per_second, m.tflops_per_rank,
             m.updated ? "true" : "false", m.batch) +
         json_number("mtp_1_loss", m.mtp_loss) + json_number("aux_loss", m.aux_loss) +
         json_number("load_balancing_loss", m.load_balancing_loss) +
         json_number("z_loss", m.z_loss) + json_skipped(m) + json_max_logits(m) +
         (m.evaluations.empty() ? "" : ", \"eval\": " + json_object(m.evaluations)) +
         (m.train_state.empty() ? "" : ", \"train_state\": " + m.train_state) + json_memory(m) +
         json_experts(m) + "}";
}

MetricsWriter::MetricsWriter(const Config& config, int64_t kept_samples,
                             std::vector<Restart> restarts)
    : steps_(config.training.steps),
      terminal_(isatty(STDOUT_FILENO) == 1),
      restarts_(std::move(restarts)) {
  const std::filesystem::path directory = config.output_dir;
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  path_ = (directory / "metrics.jsonl").string();
  const std::vector<std::string> kept = lines_up_to(path_, kept_samples, !restarts_.empty());
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
  if (!config.monitor.tensorboard.output_dir.empty()) start_board(config, kept);
}

void MetricsWriter::start_board(const Config& config, const std::vector<std::string>& kept) {
  TensorboardLogOptions options;
  options.config = config.monitor.tensorboard;
  options.points.device_loss = config.monitor.train_state.device_loss;
  options.points.moe = config.monitor.moe_monitor;
  options.points.learning_rate = [schedule = config.lr_scheduler, steps = steps_](int64_t update) {
    return learning_rate(schedule, steps, update);
  };
  options.kept = kept;
  options.yaml = to_yaml(config);
  board_ = std::make_unique<TensorboardLog>(std::move(options));
}

void MetricsWriter::write(const StepMetrics& metrics) {
  errno = 0;
  for (Restart& restart : restarts_) {
    restart.first_step = metrics.step;
    restart.going_on_at = unix_seconds();
    file_ << json_line(restart, metrics.samples - metrics.batch) << '\n';
  }
  restarts_.clear();
  std::string line = json_line(metrics);
  file_ << line << std::endl;
  if (!file_ && !lost_) {
    lost_ = true;
    log_warning(path_ + ": cannot be written (" + std::strerror(errno) + "): step " +
                std::to_string(metrics.step) + " and all after it are not in it");
  }
  if (board_) board_->add(std::move(line));
  seconds_ += metrics.seconds;
  ++written_;
  const std::string clear = terminal_ ? "\r\033[K" : "";
  std::printf("%s%s\n", clear.c_str(), console_line(metrics, steps_).c_str());
  std::fputs(console_lines(metrics.evaluations).c_str(), stdout);
  if (terminal_ && metrics.step < steps_) {
    const double left =
        seconds_ / static_cast<double>(written_) * static_cast<double>(steps_ - metrics.step);
    std::printf("%3ld %%  %.0f tokens/s  %s left", metrics.step * 100 / steps_,
                metrics.tokens_per_second, time_left(left).c_str());
  }
  std::fflush(stdout);
}

}  // namespace tessera
