// Starts of one run that share its folder of checkpoints.

#include "tessera/storage/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "tessera/base/error.h"
#include "tessera/storage/checkpoint_choice.h"
#include "tessera/storage/iteration_folder.h"
#include "tessera/storage/starting_point.h"

#include "tests/support/temp_dir.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

const Generation kFirst{"run", 1};
const Generation kSecond{"run", 2};

void write_checkpoint(const fs::path& root, int64_t step, const Generation& generation) {
  const fs::path folder = begin_iteration(root, step, generation);
  Manifest manifest;
  manifest.position.step = step;
  manifest.position.effective_batch = 1;
  manifest.job = generation.job;
  manifest.generation = generation.number;
  write_file_durably(folder / kManifestName, manifest_text(manifest));
}

void save(const fs::path& root, int64_t step, const Generation& generation) {
  write_checkpoint(root, step, generation);
  publish_iteration(root, step, generation);
}

template <typename Function>
std::string refusal_of(const Function& function) {
  try {
    function();
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "";
}

TEST(GenerationOfRun, AnOlderStartPublishesNothing) {
  const test::TempDir root;
  write_generation(root.path(), kFirst);
  save(root.path(), 1, kFirst);
  write_checkpoint(root.path(), 2, kFirst);
  EXPECT_TRUE(take_over(root.path(), kSecond));
  EXPECT_THAT(refusal_of([&] { publish_iteration(root.path(), 2, kFirst); }),
              HasSubstr("belongs to start 2 of run run now; start 1 of run run saves nothing"));
  EXPECT_THAT(list_iterations(root.path()), ElementsAre(1));
  EXPECT_EQ(read_pointer(root.path()), 1);
  save(root.path(), 2, kSecond);
  EXPECT_EQ(read_pointer(root.path()), 2);
}

// The new start takes over at every moment of the old one's publishing: what has its name then is
// whole, and nothing gets a name any more.
TEST(GenerationOfRun, TwoStartsNeverWriteIntoOneFolder) {
  const test::TempDir root;
  EXPECT_NE(writing_folder(root.path(), 7, kFirst), writing_folder(root.path(), 7, kSecond));
  EXPECT_NE(writing_folder(root.path(), 7, kFirst), writing_folder(root.path(), 7));
  write_generation(root.path(), kFirst);
  begin_iteration(root.path(), 7, kFirst);
  take_over(root.path(), kSecond);
  save(root.path(), 7, kSecond);
  EXPECT_THAT(remove_leftovers(root.path()),
              ElementsAre("iteration_00000007.generation_1.writing"));
  EXPECT_EQ(read_manifest(root.path() / iteration_name(7)).generation, 2);
}

TEST(GenerationOfRun, AnOlderStartDoesNotTakeOver) {
  const test::TempDir root;
  write_generation(root.path(), kSecond);
  EXPECT_THAT(refusal_of([&] { take_over(root.path(), kFirst); }), HasSubstr("belongs to start 2"));
  EXPECT_FALSE(take_over(root.path(), {"other", 3}));  // it needs the lock first
  EXPECT_EQ(read_generation(root.path()), kSecond);
}

TEST(GenerationOfRun, ARunThatNobodyCountsShutsTheOthersOut) {
  const test::TempDir root;
  write_generation(root.path(), kFirst);
  write_generation(root.path(), {});
  EXPECT_EQ(read_generation(root.path()), std::nullopt);
  EXPECT_THAT(refusal_of([&] { check_generation(root.path(), kFirst); }),
              HasSubstr("belongs to another run now"));
  check_generation(root.path(), {});
}

TEST(GenerationOfRun, TheLockIsWaitedFor) {
  const test::TempDir root;
  auto held = std::make_unique<FolderLock>(root.path());
  EXPECT_THAT(refusal_of([&] { FolderLock(root.path(), ::flock, std::chrono::milliseconds(50)); }),
              HasSubstr("another run is saving there"));
  auto waiting = std::async(std::launch::async, [&] {
    return FolderLock(root.path(), ::flock, std::chrono::hours(1)).holder();
  });
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  held.reset();
  EXPECT_THAT(waiting.get(), HasSubstr("process"));
}

TEST(GenerationOfRun, ARestartGoesOnFromItsOwnCheckpoints) {
  const test::TempDir root;
  Config config;
  config.checkpoint.enable_save = true;
  config.checkpoint.save_path = root.path();
  config.checkpoint.load_path = "elsewhere";
  write_generation(root.path(), {"earlier", 1});
  save(root.path(), 9, {"earlier", 1});  // of a run that this one does not go on from
  EXPECT_EQ(starting_point(config, kSecond).path, "elsewhere");
  write_generation(root.path(), kFirst);
  save(root.path(), 3, kFirst);
  const StartingPoint start = starting_point(config, kSecond);
  EXPECT_TRUE(start.own);
  EXPECT_EQ(start.path, root.path());
  EXPECT_EQ(start.job, "run");
  EXPECT_THAT(saved_by_job(checkpoints_at(root.path()).folders, "run"),
              ElementsAre(root.path() / iteration_name(3)));
  EXPECT_EQ(starting_point(config, kFirst).path, "elsewhere");  // it is no restart
}

TEST(GenerationOfRun, WhatWasFoundDamagedIsNotTriedAgain) {
  const test::TempDir root;
  write_generation(root.path(), kFirst);
  for (const int64_t step : {1, 2}) save(root.path(), step, kFirst);
  mark_damaged(root.path() / iteration_name(2), "a block differs");
  EXPECT_THAT(checkpoints_at(root.path()).folders, ElementsAre(root.path() / iteration_name(1)));
  mark_damaged(root.path() / iteration_name(1), "it, too");
  EXPECT_THAT(refusal_of([&] { checkpoints_at(root.path()); }), HasSubstr("found damaged before"));
  save(root.path(), 2, kFirst);  // anew, without the mark
  EXPECT_THAT(checkpoints_at(root.path()).folders, ElementsAre(root.path() / iteration_name(2)));
}

}  // namespace
}  // namespace tessera
