// The real program, ended at any moment: what it saved is sound, and it goes on from there.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "tessera/checkpoint/checkpoint_reader.h"
#include "tessera/checkpoint/element_scalar.h"
#include "tessera/checkpoint/inspect.h"
#include "tessera/storage/iteration_folder.h"
#include "tests/support/case_path.h"
#include "tests/support/child_process.h"
#include "tests/support/run_program.h"
#include "tests/support/temp_dir.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;

bool full_matrix() {
  const char* asked = std::getenv("TESSERA_MATRIX");
  return asked != nullptr && std::string(asked) == "full";
}

// A training on two thread ranks that saves every step into `root` and resumes what is there.
std::vector<std::string> training(const fs::path& root, const fs::path& output, bool async) {
  std::vector<std::string> arguments = {
      "train", "--config", (case_path("llama_adamw64") / "config.yaml").string(), "--ranks", "2"};
  std::vector<std::string> set = {
      "checkpoint.enable_save=true",         "checkpoint.save_path='" + root.string() + "'",
      "checkpoint.save_interleaved_steps=1", "checkpoint.save_max=3",
      "checkpoint.no_load_optim=false",      "parallelism.data_parallel_shard=2",
      "output_dir='" + output.string() + "'"};
  if (async) set.emplace_back("checkpoint.async_save=true");
  if (!list_iterations(root).empty()) {
    set.push_back("checkpoint.load_path='" + root.string() + "'");
  }
  for (const std::string& item : set) {
    arguments.emplace_back("--set");
    arguments.push_back(item);
  }
  return arguments;
}

const std::vector<std::string> kOneThread = {"OMP_NUM_THREADS=1"};

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Waits until the pointer has moved on, or the program has ended.
bool wait_for_progress(ChildProcess& child, const fs::path& root, std::optional<int64_t> before) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(20);
  while (std::chrono::steady_clock::now() < deadline && !child.ended()) {
    if (const auto now = read_pointer(root); now && now != before) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

void expect_same_weights_and_state(const fs::path& folder, const fs::path& reference) {
  CheckpointReader a(folder), b(reference);
  for (const auto member : {&Manifest::weights, &Manifest::state}) {
    for (const auto& [name, stored] : b.manifest().*member) {
      const Box whole{std::vector<int64_t>(stored.shape.size(), 0), stored.shape};
      at::Tensor x = at::empty(stored.shape, at::dtype(scalar_type(stored.dtype)));
      at::Tensor y = at::empty_like(x);
      a.read_box((a.manifest().*member).at(name), whole, x);
      b.read_box(stored, whole, y);
      EXPECT_TRUE(at::equal(x, y)) << name;
    }
  }
}

// The training that nobody ends.
const fs::path& uninterrupted() {
  static const TempDir folder;
  static const bool done = [] {
    const ProgramResult result = run_program(
        "tessera-engine", training(folder / "saved", folder / "out", false), kOneThread);
    EXPECT_EQ(result.code, 0) << result.errors;
    return true;
  }();
  EXPECT_TRUE(done);
  static const fs::path path = folder.path();
  return path;
}

std::vector<std::string> losses(const fs::path& output) {
  std::vector<std::string> values;
  std::ifstream in(output / "metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    values.push_back(line.substr(0, line.find(", \"seconds\"")));
  }
  return values;
}

class Killed : public testing::TestWithParam<bool> {};

TEST_P(Killed, AtAnyMomentWhatIsNamedIsSoundAndTheRunGoesOn) {
  const TempDir folder;
  const fs::path root = folder / "saved";
  std::mt19937 random(GetParam() ? 11 : 12);
  const int kills = full_matrix() ? 25 : 6;
  int done = 0;
  bool finished = false;
  while (done < kills && !finished) {
    const auto before = read_pointer(root);
    ChildProcess child(bin_dir() / "tessera-engine", training(root, folder / "out", GetParam()),
                       folder / "log", kOneThread);
    ASSERT_TRUE(wait_for_progress(child, root, before) || child.ended()) << text_of(folder / "log");
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60000));
    child.send(SIGKILL);
    finished = child.wait() == 0;
    ++done;
    ASSERT_FALSE(list_iterations(root).empty()) << text_of(folder / "log");
    EXPECT_NO_THROW(inspect_folder(root, /*verify=*/true));
    if (full_matrix() && finished && done < kills) {  // again from the start
      fs::remove_all(root);
      finished = false;
    }
  }
  const ProgramResult last =
      run_program("tessera-engine", training(root, folder / "out", GetParam()), kOneThread);
  EXPECT_EQ(last.code, 0) << last.errors;
  expect_same_weights_and_state(root / iteration_name(20),
                                uninterrupted() / "saved" / iteration_name(20));
  EXPECT_EQ(losses(folder / "out"), losses(uninterrupted() / "out"));
  for (const auto& entry : fs::directory_iterator(root)) {
    EXPECT_EQ(entry.path().extension() == ".writing" || entry.path().extension() == ".removing",
              false)
        << entry.path();
  }
}

INSTANTIATE_TEST_SUITE_P(SyncAndAsync, Killed, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "async" : "sync");
});

TEST(Terminated, SavesAtTheEndOfTheStepAndGoesOn) {
  const TempDir folder;
  const fs::path root = folder / "saved";
  std::vector<std::string> arguments = training(root, folder / "out", false);
  arguments.insert(arguments.end(), {"--set", "checkpoint.save_interleaved_steps=3"});
  int64_t stopped_at = 0;
  {
    ChildProcess child(bin_dir() / "tessera-engine", arguments, folder / "log", kOneThread);
    ASSERT_TRUE(wait_for_progress(child, root, std::nullopt)) << text_of(folder / "log");
    child.send(SIGTERM);
    EXPECT_EQ(child.wait(), 128 + SIGTERM) << text_of(folder / "log");
    stopped_at = read_pointer(root).value_or(0);
    EXPECT_GT(stopped_at, 3);
    EXPECT_LT(stopped_at, 20);
    EXPECT_EQ(losses(folder / "out").size(), static_cast<size_t>(stopped_at));
  }
  const ProgramResult last =
      run_program("tessera-engine", training(root, folder / "out", false), kOneThread);
  EXPECT_EQ(last.code, 0) << last.errors;
  expect_same_weights_and_state(root / iteration_name(20),
                                uninterrupted() / "saved" / iteration_name(20));
  EXPECT_EQ(losses(folder / "out"), losses(uninterrupted() / "out"));
}

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string engine_command(const std::vector<std::string>& arguments) {
  std::string command = quoted((bin_dir() / "tessera-engine").string());
  for (const std::string& word : arguments) command += " " + quoted(word);
  return command;
}

TEST(Terminated, AFailedSaveIsExitCodeFour) {
  const TempDir folder;
  const fs::path root = folder / "saved";
  std::vector<std::string> arguments = training(root, folder / "out", false);
  arguments.insert(arguments.end(),
                   {"--set", "training.steps=2", "--set", "lr_scheduler.type=ConstantWarmUpLR"});
  // ulimit -f counts blocks of 1024 bytes.
  ChildProcess child("/bin/bash", {"-c", "ulimit -f 100; exec " + engine_command(arguments)},
                     folder / "log", kOneThread);
  EXPECT_EQ(child.wait(), 4) << text_of(folder / "log");
  EXPECT_THAT(text_of(folder / "log"), testing::HasSubstr("step 1 is not saved: "));
  EXPECT_TRUE(list_iterations(root).empty());
}

// A disk that one checkpoint of 4.4 MB fits on. Where a user may not mount one, the limit above
// stands for it.
TEST(Terminated, AFullDiskLeavesTheCheckpointBefore) {
  for (const bool async : {false, true}) {
    const TempDir folder;
    const fs::path root = folder / "disk" / "saved";
    fs::create_directories(root);
    const std::string train = engine_command(training(root, folder / "out", async));
    const std::string disk = quoted((folder / "disk").string());
    const std::string script = "mount -t tmpfs -o size=6m none " + disk + " || exit 77; " + train +
                               "; code=$?; echo; ls -A " + quoted(root.string()) + "; " +
                               engine_command({"inspect", "--verify", root.string()}) +
                               "; exit $code";
    ChildProcess child("/usr/bin/unshare", {"-rm", "/bin/bash", "-c", script}, folder / "log",
                       kOneThread);
    const int code = child.wait();
    const std::string said = text_of(folder / "log");
    if (code == 77 || said.starts_with("unshare:")) continue;
    EXPECT_EQ(code, 4) << said;
    EXPECT_THAT(said, testing::HasSubstr("step 2 is not saved: "));
    EXPECT_THAT(said, testing::HasSubstr("No space left on device"));
    EXPECT_THAT(said, testing::HasSubstr("\niteration_00000001\nlatest_checkpointed"));
    EXPECT_THAT(said, testing::HasSubstr("every checksum is right"));
  }
}

}  // namespace
}  // namespace tessera::test
