#include "tessera/observe/tensorboard_log.h"

#include <algorithm>
#include <chrono>
#include <sstream>
#include <utility>

#include "tessera/base/log.h"

namespace tessera {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Top-level sections of a YAML text: name, and its lines indented as a block of code of Markdown.
std::vector<std::pair<std::string, std::string>> sections_of(const std::string& yaml) {
  std::vector<std::pair<std::string, std::string>> sections;
  std::istringstream lines(yaml);
  for (std::string line; std::getline(lines, line);) {
    const bool begins = !line.empty() && line[0] != ' ' && line[0] != '#' && line[0] != '-';
    const size_t colon = line.find(':');
    if (begins && colon != std::string::npos) sections.emplace_back(line.substr(0, colon), "");
    if (!sections.empty()) sections.back().second += "    " + line + "\n";
  }
  return sections;
}

}  // namespace

TensorboardLog::TensorboardLog(TensorboardLogOptions options)
    : options_(std::move(options)), file_(options_.config.output_dir) {
  // What is not positive counts as the default, as a warning of the rules says.
  TensorboardConfig& config = options_.config;
  if (config.log_interval < 1) config.log_interval = TensorboardConfig{}.log_interval;
  if (config.queue_size < 1) config.queue_size = TensorboardConfig{}.queue_size;
  thread_ = std::thread([this] { run(); });
}

TensorboardLog::~TensorboardLog() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void TensorboardLog::add(std::string line) {
  std::unique_lock lock(mutex_);
  const auto most = static_cast<size_t>(options_.config.queue_size);
  changed_.wait(lock, [&] { return queue_.size() < most; });
  queue_.push_back({std::move(line), now()});
  lock.unlock();
  changed_.notify_all();
}

void TensorboardLog::run() {
  while (true) {
    Waiting next;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return end_ || !queue_.empty(); });
      if (queue_.empty()) return;
      next = std::move(queue_.front());
      queue_.pop_front();
    }
    changed_.notify_all();
    write(next);
  }
}

void TensorboardLog::write_start(int64_t done) {
  started_ = true;
  const double time = now();
  file_.add_start(done == 0 ? 0 : done + 1, time);
  for (const auto& [name, text] : sections_of(options_.yaml)) {
    file_.add_text(name, text, done, time);
  }
  for (const std::string& line : options_.kept) {
    auto points = step_points(line, options_.points, skipped_);
    if (!points || points->by_step.x % options_.config.log_interval != 0) continue;
    if (points->by_step.x > done || points->by_samples.x <= done) continue;
    points->by_samples.wall_time = time;
    file_.add(points->by_samples);
  }
  options_.kept.clear();
}

void TensorboardLog::write(const Waiting& waiting) {
  auto points = step_points(waiting.line, options_.points, skipped_);
  if (!points) return;
  if (!started_) {
    write_start(points->by_step.x - 1);
    points =
        step_points(waiting.line, options_.points, skipped_);  // the kept lines count skipped steps
  }
  if (points->by_step.x % options_.config.log_interval != 0) return;
  points->by_step.wall_time = points->by_samples.wall_time = waiting.wall_time;
  file_.add(points->by_step);
  file_.add(points->by_samples);
  if (!file_.flush() && !lost_) {
    lost_ = true;
    log_warning(file_.path() + ": cannot be written: step " + std::to_string(points->by_step.x) +
                " and all after it are not in it");
  }
}

}  // namespace tessera
