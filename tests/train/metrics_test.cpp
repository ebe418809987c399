#include "tessera/train/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/observe/event_reader.h"
#include "tests/support/temp_dir.h"

namespace tessera::test {
namespace {

using ::testing::HasSubstr;

class Metrics : public testing::Test {
 protected:
  Metrics() { config_.output_dir = folder_.path(); }

  static StepMetrics step(int64_t number) {
    StepMetrics metrics;
    metrics.step = number;
    metrics.samples = 8 * number;
    return metrics;
  }

  std::vector<std::string> lines() const {
    std::vector<std::string> result;
    std::ifstream file(folder_ / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) result.push_back(line);
    return result;
  }

  TempDir folder_;
  Config config_;
};

// Files of this process may not grow above `bytes` while this lives; writes fail instead of
// killing.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  sighandler_t handler_;
};

TEST_F(Metrics, ARunThatResumesKeepsTheLinesBeforeItsFirstStep) {
  {
    MetricsWriter writer(config_);
    for (int64_t number = 1; number <= 4; ++number) writer.write(step(number));
  }
  const std::vector<std::string> before = lines();
  ASSERT_EQ(before.size(), 4u);
  MetricsWriter resumed(config_, 16);  // and is killed before it has a step
  EXPECT_EQ(lines(), std::vector<std::string>(before.begin(), before.begin() + 2));
  resumed.write(step(3));
  EXPECT_EQ(lines().size(), 3u);
}

TEST_F(Metrics, AFileThatTakesNoMoreIsSaidOnce) {
  MetricsWriter writer(config_);
  writer.write(step(1));
  const FileSizeLimit limit(std::filesystem::file_size(folder_ / "metrics.jsonl") + 10);
  testing::internal::CaptureStderr();
  for (int64_t number = 2; number <= 4; ++number) writer.write(step(number));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("metrics.jsonl: cannot be written (File too large): step 2 and all"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
}

TEST_F(Metrics, EventFilesHaveTheSameStepsAlsoAfterAResume) {
  config_.monitor.tensorboard.output_dir = folder_ / "board";
  {
    MetricsWriter writer(config_);
    for (int64_t number = 1; number <= 4; ++number) writer.write(step(number));
  }
  {
    MetricsWriter resumed(config_, 16);
    for (int64_t number = 3; number <= 5; ++number) {
      StepMetrics again = step(number);
      again.loss = 1.5;
      resumed.write(again);
    }
  }
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "board")) {
    files.push_back(entry.path());
  }
  ASSERT_EQ(files.size(), 2u);
  std::sort(files.begin(), files.end());
  testing_events::Events events;
  for (const std::string& file : files) events.read(file);
  const std::map<int64_t, float> by_step = {{1, 0}, {2, 0}, {3, 1.5}, {4, 1.5}, {5, 1.5}};
  const std::map<int64_t, float> by_samples = {{8, 0}, {16, 0}, {24, 1.5}, {32, 1.5}, {40, 1.5}};
  EXPECT_EQ(events.scalars["loss"], by_step);
  EXPECT_EQ(events.scalars["loss vs samples"], by_samples);
}

}  // namespace
}  // namespace tessera::test
