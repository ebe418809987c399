// Ids and texts of tokenizers that Hugging Face's `tokenizers` computed: tests/cases/tokenizer.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/data/tokenizer/json_tokenizer.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;

const fs::path kCases = fs::path(TESSERA_SOURCE_DIR) / "tests/cases/tokenizer";

std::vector<nlohmann::json> lines_of(const fs::path& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

class TokenizerCase : public testing::TestWithParam<std::string> {
 protected:
  fs::path folder() const { return kCases / GetParam(); }
};

TEST_P(TokenizerCase, IdsAndTextsAreTheSame) {
  const JsonTokenizer tokenizer(folder().string());
  const auto cases = lines_of(folder() / "cases.jsonl");
  ASSERT_FALSE(cases.empty());
  Ids before, after;
  tokenizer.around(before, after);
  for (const auto& item : cases) {
    Ids ids;
    tokenizer.encode(item["text"].get<std::string>(), ids);
    ASSERT_EQ(ids, item["ids"].get<Ids>()) << item["text"];
    ASSERT_EQ(tokenizer.decode(ids, false), item["decoded"]) << item["text"];
    ASSERT_EQ(tokenizer.decode(ids, true), item["decoded_without_special"]) << item["text"];
    ids.insert(ids.begin(), before.begin(), before.end());
    ids.insert(ids.end(), after.begin(), after.end());
    ASSERT_EQ(ids, item["ids_with_special"].get<Ids>()) << item["text"];
  }
  for (const auto& item : lines_of(folder() / "decode_cases.jsonl")) {
    ASSERT_EQ(tokenizer.decode(item["ids"].get<Ids>(), false), item["decoded"]) << item["ids"];
  }
}

std::vector<std::string> names() {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(kCases)) {
    if (entry.is_directory()) found.push_back(entry.path().filename().string());
  }
  std::ranges::sort(found);
  return found;
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerCase, testing::ValuesIn(names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tessera
