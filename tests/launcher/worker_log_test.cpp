#include "tessera/launcher/worker_log.h"

#include <gtest/gtest.h>

#include "temporary_folder.h"

namespace tessera {
namespace {

TEST(WorkerLog, EndHasContextAndTheLastError) {
  TemporaryFolder folder;
  const std::string path = folder / "log";
  write_file(path, "a\nb\nerror: first\nc\nd\nerror: last\nmore of it\n");
  const LogEnd end = read_log_end(path, 2);
  EXPECT_EQ(end.context, "c\nd");
  EXPECT_EQ(end.error, "error: last\nmore of it");
}

TEST(WorkerLog, WithoutAnErrorTheLastLines) {
  TemporaryFolder folder;
  const std::string path = folder / "log";
  write_file(path, "a\nb\nc\n");
  EXPECT_EQ(read_log_end(path, 2).context, "b\nc");
  EXPECT_EQ(read_log_end(path, 2).error, "");
  EXPECT_EQ(read_log_end(folder / "none").context, "");
}

TEST(WorkerLog, ALongLogIsReadFromItsEnd) {
  TemporaryFolder folder;
  const std::string path = folder / "log";
  std::string text;
  for (int i = 0; i < 50000; ++i) text += "line " + std::to_string(i) + "\n";
  write_file(path, text + "error: x\n");
  EXPECT_EQ(read_log_end(path, 1).context, "line 49999");
}

TEST(WorkerLog, EchoTakesWholeLinesAndHoldsErrorsBack) {
  TemporaryFolder folder;
  const std::string path = folder / "log";
  testing::internal::CaptureStdout();
  LogEcho echo(path, "[0] ");
  echo.poll();  // not there yet
  write_file(path, "one\ntw");
  echo.poll();
  write_file(path, "one\ntwo\nerror: x\nafter\n");
  echo.poll();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "[0] one\n[0] two\n");
  testing::internal::CaptureStdout();
  echo.finish();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "[0] error: x\n[0] after\n");
}

}  // namespace
}  // namespace tessera
