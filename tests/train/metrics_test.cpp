#include "tessera/train/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

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

}  // namespace
}  // namespace tessera::test
