// Every kept input through its reader: those that once broke it, and those that reach the most
// code.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/fuzz/targets.h"

namespace tessera {
namespace {

TEST(FuzzCorpus, EveryKeptInputIsAnswered) {
  for (const fuzz::Target& target : fuzz::targets()) {
    const auto folder =
        std::filesystem::path(TESSERA_SOURCE_DIR) / "tests/fuzz/corpus" / target.name;
    int inputs = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      SCOPED_TRACE(entry.path().string());
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string input{std::istreambuf_iterator<char>(file), {}};
      EXPECT_NO_THROW(target.run(input));
      ++inputs;
    }
    EXPECT_GT(inputs, 0) << folder;
  }
}

TEST(FuzzCorpus, IsSmall) {
  uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           std::filesystem::path(TESSERA_SOURCE_DIR) / "tests/fuzz/corpus")) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  EXPECT_LE(bytes, 1u << 20);
}

}  // namespace
}  // namespace tessera
