// A run is ended at every change that saving and removing make to the folder of checkpoints.

#include "tessera/storage/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tessera/storage/checkpoint_choice.h"
#include "tessera/storage/iteration_folder.h"
#include "tests/storage/kill_points.h"
#include "tests/support/temp_dir.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::ElementsAreArray;

constexpr int64_t kKeep = 3;

// What a run writes of a checkpoint, without tensors.
void write_checkpoint(const fs::path& root, int64_t step, std::vector<int64_t> kept,
                      std::vector<int64_t> superseded) {
  const fs::path folder = begin_iteration(root, step);
  for (const char* file : {"weights", "state"}) write_file_durably(folder / file, "12345678");
  Manifest manifest;
  manifest.position.step = step;
  manifest.position.effective_batch = 1;
  manifest.kept = std::move(kept);
  manifest.superseded = std::move(superseded);
  manifest.files = {{"weights", 8, {}}, {"state", 8, {}}};
  write_file_durably(folder / kManifestName, manifest_text(manifest));
}

// Saves `step` after the checkpoints in `kept`, and removes those that save_max leaves no room for.
void save(const fs::path& root, int64_t step, std::vector<int64_t> kept) {
  std::erase(kept, step);
  kept.push_back(step);
  const auto surplus = std::max<int64_t>(0, static_cast<int64_t>(kept.size()) - kKeep);
  const std::vector<int64_t> removed(kept.begin(), kept.begin() + surplus);
  kept.erase(kept.begin(), kept.begin() + surplus);
  write_checkpoint(root, step, kept, removed);
  publish_iteration(root, step);
  remove_iterations(root, removed);
}

void save_until(const fs::path& root, int64_t last) {
  std::vector<int64_t> kept;
  for (int64_t step = 1; step <= last; ++step) {
    save(root, step, kept);
    kept.push_back(step);
    if (kept.size() > kKeep) kept.erase(kept.begin());
  }
}

struct Start {
  int64_t step = 0;           // that the run goes on from
  std::vector<int64_t> kept;  // of the run
};

// What a run does that goes on from `root`.
Start start(const fs::path& root) {
  const CheckpointChoice choice = checkpoints_at(root);
  EXPECT_EQ(choice.note, "");
  const Manifest newest = read_manifest(choice.folders.front());
  check_sizes(newest, choice.folders.front());
  return {newest.position.step, tidy_for_run(root, kKeep, checkpoints_of_run(newest))};
}

std::vector<std::string> names_in(const fs::path& root) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(root)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> names_of(const std::vector<int64_t>& steps) {
  std::vector<std::string> names;
  for (const int64_t step : steps) names.push_back(iteration_name(step));
  names.emplace_back(kPointerName);
  return names;
}

TEST(KilledWhileSaving, TheNextStartLeavesExactlySaveMaxOfTheRun) {
  int points = 0;
  bool new_one_was_taken = false, old_one_was_taken = false;
  for (int n = 1;; ++n) {
    const test::TempDir root;
    save_until(root.path(), 5);
    const bool killed = test::killed_at(n, [&] { save(root.path(), 6, {3, 4, 5}); });
    SCOPED_TRACE(n);
    const Start next = start(root.path());
    const std::vector<int64_t> expected =
        next.step == 6 ? std::vector<int64_t>{4, 5, 6} : std::vector<int64_t>{3, 4, 5};
    EXPECT_THAT(next.kept, ElementsAreArray(expected));
    EXPECT_THAT(names_in(root.path()), ElementsAreArray(names_of(expected)));
    EXPECT_EQ(read_pointer(root.path()), next.step);
    (next.step == 6 ? new_one_was_taken : old_one_was_taken) = true;
    if (!killed) break;
    ++points;
  }
  EXPECT_EQ(points, 15);  // as many changes as are made
  EXPECT_TRUE(new_one_was_taken);
  EXPECT_TRUE(old_one_was_taken);
}

// The same step again: a run that was resumed before it.
TEST(KilledWhileSaving, AStepThatIsSavedAgainIsThereOnce) {
  for (int n = 1;; ++n) {
    const test::TempDir root;
    save_until(root.path(), 5);
    const bool killed = test::killed_at(n, [&] { save(root.path(), 5, {3, 4}); });
    SCOPED_TRACE(n);
    const Start next = start(root.path());
    EXPECT_EQ(next.step, 5);
    EXPECT_THAT(names_in(root.path()), ElementsAreArray(names_of({3, 4, 5})));
    if (!killed) break;
  }
}

// The start itself may be ended too.
TEST(KilledWhileStarting, TheOneAfterThatTidiesUp) {
  for (int n = 1;; ++n) {
    const test::TempDir root;
    save_until(root.path(), 5);
    write_checkpoint(root.path(), 6, {4, 5, 6}, {3});
    publish_iteration(root.path(), 6);  // ended before it removed 3,
    begin_iteration(root.path(), 7);    // and another while it wrote 7
    fs::create_directories(root / "iteration_00000002.removing");
    std::ofstream(root / "iteration_00000002.removing" / kManifestName) << "{}";
    const bool killed = test::killed_at(n, [&] { start(root.path()); });
    SCOPED_TRACE(n);
    EXPECT_THAT(start(root.path()).kept, ElementsAre(4, 5, 6));
    EXPECT_THAT(names_in(root.path()), ElementsAreArray(names_of({4, 5, 6})));
    if (!killed) break;
  }
}

// A pointer that a user has set back is followed.
TEST(Pointer, ANewerCheckpointAloneDoesNotMoveIt) {
  const test::TempDir root;
  save_until(root.path(), 5);
  std::ofstream(root / kPointerName) << "4\n";
  EXPECT_EQ(read_pointer(root.path()), 4);
  // Of a run that was ended before it gave checkpoint 9 its name.
  std::ofstream(root / (std::string(kPointerName) + ".writing")) << "9\n";
  EXPECT_EQ(read_pointer(root.path()), 4);
  // Half a number.
  std::ofstream(root / (std::string(kPointerName) + ".writing")) << "5";
  EXPECT_EQ(read_pointer(root.path()), 4);
  std::ofstream(root / (std::string(kPointerName) + ".writing")) << "5\n";
  EXPECT_EQ(read_pointer(root.path()), 5);
}

}  // namespace
}  // namespace tessera
