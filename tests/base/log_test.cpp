#include "tessera/base/log.h"

#include <gtest/gtest.h>

#include <cstdlib>
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

TEST(Log, TheStackUnderAMessageOfLibtorchIsLeftOut) {
  const std::string message =
      "cannot do it\nException raised from f at x.cpp:3 (most recent call first):\nframe #0: g\n";
  ::unsetenv("TORCH_SHOW_CPP_STACKTRACES");
  testing::internal::CaptureStderr();
  log_error(message);
  log_warning("why: cannot do it\nframe #0: g");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "error: cannot do it\nwarning: why: cannot do it\n");
  ::setenv("TORCH_SHOW_CPP_STACKTRACES", "1", 1);
  testing::internal::CaptureStderr();
  log_error(message);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "error: " + message);
  ::unsetenv("TORCH_SHOW_CPP_STACKTRACES");
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
