#include "tessera/base/log.h"

#include <gtest/gtest.h>

#include <sstream>
#include <thread>
#include <vector>

namespace tessera {
namespace {

TEST(Log, LevelsAreInFront) {
  testing::internal::CaptureStderr();
  log_info("one");
  log_warning("two");
  log_error("three\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "one\nwarning: two\nerror: three\n");
}

TEST(Log, LinesOfThreadsDoNotMix) {
  constexpr int kThreads = 8;
  constexpr int kLines = 200;
  testing::internal::CaptureStderr();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t] {
      const std::string line(100, static_cast<char>('a' + t));
      for (int i = 0; i < kLines; ++i) log_info(line);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::istringstream captured(testing::internal::GetCapturedStderr());
  int lines = 0;
  for (std::string line; std::getline(captured, line); ++lines) {
    ASSERT_EQ(line, std::string(100, line.at(0)));
  }
  EXPECT_EQ(lines, kThreads * kLines);
}

}  // namespace
}  // namespace tessera
