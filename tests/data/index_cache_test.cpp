#include "tessera/data/index_cache.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "tests/support/temp_dir.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using test::TempDir;

constexpr int64_t kBytes = 1000;

// A block whose bytes are all `value`; counts how often it is built.
struct Builder {
  int value = 7;
  std::atomic<int> built{0};

  CachedBlock get(const std::optional<std::string>& folder, const std::string& description = "d") {
    return cached_block(folder, "test", description, kBytes, [this](std::byte* block) {
      ++built;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      std::memset(block, value, kBytes);
    });
  }
};

void expect_block(const CachedBlock& block, int value) {
  ASSERT_EQ(block.size(), kBytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block.data()) % 16, 0u);
  for (int64_t i = 0; i < kBytes; ++i) {
    ASSERT_EQ(std::to_integer<int>(block.data()[i]), value) << i;
  }
}

fs::path file_of(const TempDir& folder, const std::string& description = "d") {
  return folder / cache_file_name("test", description);
}

int part_files(const TempDir& folder) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    count += entry.path().string().find(".part") != std::string::npos;
  }
  return count;
}

TEST(IndexCache, IsBuiltOnceAndMappedAfterwards) {
  const TempDir folder;
  Builder builder;
  const std::string below = folder / "made" / "on" / "demand";
  expect_block(builder.get(below), 7);
  expect_block(builder.get(below), 7);
  EXPECT_EQ(builder.built, 1);
}

TEST(IndexCache, WithoutAFolderNothingIsStored) {
  Builder builder;
  expect_block(builder.get(std::nullopt), 7);
  expect_block(builder.get(std::nullopt), 7);
  EXPECT_EQ(builder.built, 2);
}

TEST(IndexCache, AnotherDescriptionIsAnotherBlock) {
  const TempDir folder;
  Builder seven;
  Builder eight{8};
  expect_block(seven.get(folder.path(), "seven"), 7);
  expect_block(eight.get(folder.path(), "eight"), 8);
  expect_block(seven.get(folder.path(), "seven"), 7);
  EXPECT_EQ(seven.built + eight.built, 2);
  // A file under the wrong name is not taken for the other block.
  fs::copy_file(file_of(folder, "seven"), file_of(folder, "eight"),
                fs::copy_options::overwrite_existing);
  expect_block(eight.get(folder.path(), "eight"), 8);
  EXPECT_EQ(eight.built, 2);
}

TEST(IndexCache, ThreadsBuildOnce) {
  const TempDir folder;
  Builder builder;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] { expect_block(builder.get(folder.path().string()), 7); });
    }
  }
  EXPECT_EQ(builder.built, 1);
  EXPECT_EQ(part_files(folder), 0);
}

TEST(IndexCache, DamagedFilesAreReplaced) {
  const TempDir folder;
  Builder builder;
  builder.get(folder.path().string());
  const auto whole = fs::file_size(file_of(folder));
  int built = 1;
  const auto expect_rebuilt = [&] {
    expect_block(builder.get(folder.path().string()), 7);
    EXPECT_EQ(builder.built, ++built);
    EXPECT_EQ(fs::file_size(file_of(folder)), whole);
  };
  for (const auto size : {whole - 1, whole / 2, uintmax_t{10}, uintmax_t{0}}) {
    fs::resize_file(file_of(folder), size);
    expect_rebuilt();
  }
  for (const auto at : {uintmax_t{0}, uintmax_t{24}, uintmax_t{64}, uintmax_t{500}, whole - 1}) {
    {
      std::fstream file(file_of(folder), std::ios::binary | std::ios::in | std::ios::out);
      file.seekp(static_cast<std::streamoff>(at));
      file.put('\x55');
    }
    expect_rebuilt();
  }
  // The right size, but never filled: what a file system may leave after a power cut.
  std::ofstream(file_of(folder), std::ios::trunc).close();
  fs::resize_file(file_of(folder), whole);
  expect_rebuilt();
}

TEST(IndexCache, WhatAKilledBuilderLeftIsNoObstacle) {
  const TempDir folder;
  char host[256] = {};
  ASSERT_EQ(gethostname(host, sizeof(host) - 1), 0);
  std::ofstream(file_of(folder).string() + ".part-" + host) << std::string(5000, 'x');
  std::ofstream(file_of(folder).string() + ".lock") << "";
  Builder builder;
  expect_block(builder.get(folder.path().string()), 7);
  expect_block(builder.get(folder.path().string()), 7);
  EXPECT_EQ(builder.built, 1);
  EXPECT_EQ(part_files(folder), 0);
}

TEST(IndexCache, ABuilderThatIsKilledOrFailsIsFollowedByTheNext) {
  const TempDir folder;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    cached_block(folder.path().string(), "test", "d", kBytes, [](std::byte*) {
      for (;;) pause();
    });
    _exit(0);
  }
  while (!fs::exists(file_of(folder).string() + ".lock")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_EQ(kill(child, SIGKILL), 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_THROW(cached_block(folder.path().string(), "test", "d", kBytes,
                            [](std::byte*) { throw std::runtime_error("no"); }),
               std::runtime_error);
  EXPECT_FALSE(fs::exists(file_of(folder)));
  Builder builder;
  expect_block(builder.get(folder.path().string()), 7);
  expect_block(builder.get(folder.path().string()), 7);
  EXPECT_EQ(builder.built, 1);
}

TEST(IndexCache, AFolderThatCannotBeWrittenCostsOnlyTheCache) {
  const TempDir folder;
  std::ofstream(folder / "file") << "";
  Builder builder;
  ::testing::internal::CaptureStderr();
  expect_block(builder.get((folder / "file" / "below").string()), 7);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("in memory only"), std::string::npos) << log;
}

}  // namespace
}  // namespace tessera
