#include "tessera/storage/durable_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "tessera/base/error.h"
#include "tests/support/temp_dir.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string numbered(size_t count) {
  std::string text(count, '\0');
  for (size_t i = 0; i < count; ++i) text[i] = static_cast<char>(i * 2654435761U >> 13);
  return text;
}

// Lengths about the ends of a disk's block and of the buffers, in pieces that fit neither.
TEST(DurableFile, HoldsWhatWasAppendedInItsOrder) {
  const test::TempDir folder;
  constexpr size_t kMiB = 1 << 20;
  for (const size_t count : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, size_t{4097},
                             4 * kMiB - 1, 4 * kMiB, 4 * kMiB + 1, 8 * kMiB, 9 * kMiB + 17}) {
    const fs::path path = folder.path() / "file";
    const std::string text = numbered(count);
    DurableFile file(path);
    for (size_t at = 0; at < count; at += 700'001) {
      file.append(text.data() + at, std::min<size_t>(700'001, count - at));
    }
    EXPECT_FALSE(fs::exists(path)) << count;
    file.close();
    EXPECT_TRUE(bytes_of(path) == text) << count;
    fs::remove(path);
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(DurableFile, LeavesNothingWithoutClose) {
  const test::TempDir folder;
  const std::string text = numbered(6 << 20);
  {
    DurableFile file(folder.path() / "file");
    file.append(text.data(), text.size());
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(DurableFile, NamesTheFileThatCannotBeMade) {
  try {
    DurableFile file("/nowhere/at/all");
    FAIL() << "was made";
  } catch (const CheckpointError& error) {
    EXPECT_NE(std::string(error.what()).find("/nowhere/at/all"), std::string::npos);
  }
}

// Always full: the error comes from the thread that writes behind, at the latest at close().
TEST(DurableFile, ReportsAFullDisk) {
  const test::TempDir folder;
  fs::create_symlink("/dev/full", folder.path() / "file.tmp");
  const std::string text = numbered(20 << 20);
  EXPECT_THROW(
      {
        DurableFile file(folder.path() / "file");
        file.append(text.data(), text.size());
        file.close();
      },
      CheckpointError);
}

}  // namespace
}  // namespace tessera
