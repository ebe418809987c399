// `tessera plan` on every file of configs/, as it is and damaged: 0 or 2, and never a signal.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "tests/launcher/temporary_folder.h"
#include "tests/support/mutate_yaml.h"
#include "tests/support/run_program.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

struct ConfigFile {
  std::string name;
  std::vector<std::string> lines;
  std::string ranks;
};

std::vector<ConfigFile> config_files() {
  std::vector<ConfigFile> files;
  for (const auto& entry : fs::directory_iterator(TESSERA_SOURCE_DIR "/configs")) {
    if (entry.path().extension() != ".yaml") continue;
    const std::string text = read_file(entry.path());
    std::smatch ranks;
    EXPECT_TRUE(std::regex_search(text, ranks, std::regex("\n# Ranks: ([0-9]+)\n")));
    files.push_back({entry.path().stem(), test::split_lines(text), ranks[1]});
  }
  std::ranges::sort(files, {}, &ConfigFile::name);
  return files;
}

bool full_matrix() {
  const char* asked = std::getenv("TESSERA_MATRIX");
  return asked != nullptr && std::string(asked) == "full";
}

// Of the processor, of all children that have ended.
double seconds_of_children() {
  rusage used{};
  ::getrusage(RUSAGE_CHILDREN, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

TEST(PlanMutations, EveryDamagedFileIsPlannedOrRefused) {
  const std::vector<ConfigFile> files = config_files();
  ASSERT_GE(files.size(), 13u);
  const TemporaryFolder folder;
  const std::string path = folder / "x.yaml";
  test::YamlMutator mutator(20261201);
  const int count = full_matrix() ? 10000 : 300;
  int planned = 0;
  double slowest = 0;
  std::string slowest_file;
  for (int i = 0; i < count; ++i) {
    const ConfigFile& file = files[static_cast<size_t>(i) % files.size()];
    const std::string text = static_cast<size_t>(i) < files.size() ? test::join_lines(file.lines)
                                                                   : mutator.mutate(file.lines);
    write_file(path, text);
    std::vector<std::string> arguments = {"plan", "--config", path, "--ranks", file.ranks};
    if (mutator.pick(2) == 1) arguments.emplace_back("--json");
    const double before = seconds_of_children();
    const test::ProgramResult result = test::run_program("tessera", arguments);
    const double seconds = seconds_of_children() - before;
    ASSERT_THAT(result.code, testing::AnyOf(0, 2)) << text << result.errors;
    ASSERT_FALSE(result.output.empty() && result.errors.empty()) << text;
    const bool is_damaged = static_cast<size_t>(i) >= files.size();
    ASSERT_TRUE(is_damaged || result.code == 0) << file.name << result.errors;
    planned += result.code == 0;
    if (seconds > slowest) {
      slowest = seconds;
      slowest_file = text;
    }
  }
  EXPECT_GT(planned, count / 10);
  EXPECT_LT(planned, count * 9 / 10);
  RecordProperty("slowest_seconds", std::to_string(slowest));
  EXPECT_TRUE(slowest <= 1.0 || !full_matrix()) << slowest << " s\n" << slowest_file;
}

}  // namespace
}  // namespace tessera
