// The commands of README.md, word for word.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command.h"

namespace tessera {
namespace {

using testing::HasSubstr;

// The first block of code below `heading`.
std::string block_below(const std::string& heading) {
  const std::string text = read_file(std::string(TESSERA_SOURCE_DIR) + "/README.md");
  const size_t begin = text.find("```\n", text.find(heading + "\n"));
  const size_t end = text.find("```", begin + 4);
  EXPECT_NE(end, std::string::npos) << heading;
  return text.substr(begin + 4, end - begin - 4);
}

TEST(Readme, TheCommandsOfUseWorkAsTyped) {
  TemporaryFolder folder;
  std::string words;
  for (int i = 0; i < 5000; ++i) words += "word " + std::to_string(i) + "\n";
  write_file(folder / "book.txt", words);
  write_file(folder / "notes.txt", "short");
  std::filesystem::create_directory_symlink(std::string(TESSERA_SOURCE_DIR) + "/configs",
                                            folder / "configs");
  const CommandResult result = run_command(
      "set -e; export OMP_NUM_THREADS=1 PATH='" + programs() + "':$PATH\n" + block_below("## Use"),
      folder.path());
  EXPECT_EQ(result.code, 0) << result.err;
  for (const char* line :
       {"2 documents", "8 ranks = dp_replicate", "saved ", "parity holds", "every checksum"}) {
    EXPECT_THAT(result.out + result.err, HasSubstr(line));
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "model/model.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(folder / "worker_7.log"));
}

}  // namespace
}  // namespace tessera
