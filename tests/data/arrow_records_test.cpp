// Parquet and Arrow files (tests/cases/records, made by pyarrow), read where the library for them
// was built. Where it was not, the same calls must say how to have it; which of the two was tested
// is printed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>

#include "tessera/base/error.h"
#include "tessera/data/indexed_dataset.h"
#include "tessera/data/records/make_rows.h"
#include "tessera/data/records/record_source.h"
#include "tests/data/token_files.h"
#include "tests/support/case_path.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using testing::AllOf;
using testing::HasSubstr;
using Json = nlohmann::json;

const fs::path kFiles = fs::path(TESSERA_SOURCE_DIR) / "tests/cases/records";
const char* const kRefusal = "tools/setup.sh --arrow, then make again";

class ArrowRecords : public testing::Test {
 protected:
  ArrowRecords() : is_built_(fs::exists(fs::path(TESSERA_BIN_DIR) / "libtessera-arrow.so")) {
    std::cout << (is_built_ ? "libtessera-arrow.so is built: files are read\n"
                            : "libtessera-arrow.so is not built: the refusal is tested instead\n");
  }
  // All records, or the refusal that an absent library asks for.
  std::vector<Json> records(const std::string& kind, const std::string& name,
                            size_t most = SIZE_MAX) const {
    std::vector<Json> found;
    const auto read = [&] {
      read_records(kind, (kFiles / name).string(), [&](Record&& record) {
        found.push_back(std::move(record.columns));
        return found.size() < most;
      });
    };
    if (is_built_) {
      read();
    } else {
      EXPECT_THAT(message_of<ConfigError>(read), AllOf(HasSubstr(name), HasSubstr(kRefusal)));
    }
    return found;
  }

  const bool is_built_;
};

TEST_F(ArrowRecords, EveryTypeOfValue) {
  const std::vector<Json> expected = {
      Json::parse(R"({"text": "one", "count": 1, "share": 0.5, "good": true, "messages":
          [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "large": "x", "kind": "red"})"),
      Json::parse(
          R"({"text": "two \"quoted\"\n", "count": -4611686018427387904, "share": null, "good": false,
          "messages": [], "large": "y", "kind": "blue"})"),
      Json::parse(
          R"({"text": null, "count": null, "share": null, "good": null, "messages": null, "large": "z",
          "kind": "red"})"),
      Json::parse(R"({"text": "é and 😀", "count": 4, "share": 1e300, "good": true, "messages":
          [{"role": "user", "content": null}], "large": "", "kind": null})")};
  for (const auto& [kind, name] :
       {std::pair{"parquet", "rows.parquet"}, std::pair{"parquet", "zstd.parquet"},
        std::pair{"arrow", "rows.arrow"}, std::pair{"arrow", "stream.arrow"}}) {
    const auto found = records(kind, name);
    EXPECT_EQ(found, is_built_ ? expected : std::vector<Json>()) << name;
    EXPECT_EQ(records(kind, name, 2).size(), is_built_ ? 2U : 0U) << name;
  }
}

TEST_F(ArrowRecords, WhatCannotBeReadIsNamed) {
  const auto said = [&](const std::string& kind, const fs::path& path) {
    return message_of<ConfigError>(
        [&] { read_records(kind, path.string(), [](Record&&) { return true; }); });
  };
  const std::string foreign = said("parquet", kFiles / "foreign.parquet");
  const std::string no_parquet = said("parquet", kFiles / "rows.arrow");
  const std::string absent = said("parquet", "/nowhere.parquet");
  if (!is_built_) {
    for (const auto& text : {foreign, no_parquet, absent}) EXPECT_THAT(text, HasSubstr(kRefusal));
    return;
  }
  EXPECT_THAT(foreign,
              AllOf(HasSubstr("foreign.parquet"), HasSubstr("column when has type timestamp[us]"),
                    HasSubstr("string, integer, float, bool")));
  EXPECT_THAT(no_parquet, AllOf(HasSubstr("rows.arrow"), HasSubstr("magic bytes")));
  EXPECT_THAT(absent, AllOf(HasSubstr("/nowhere.parquet"), HasSubstr("No such file")));
}

RowsOptions rows_options(const std::string& name, const fs::path& cache) {
  RowsOptions options;
  options.kind = "parquet";
  options.files = {(kFiles / name).string()};
  options.tokenizer = (test::case_path("sft_mask64") / "tokenizer").string();
  options.chat_template = "chatml";
  options.seq_length = 64;
  options.cache_dir = cache.string();
  return options;
}

bool holds_a_file(const fs::path& folder) {
  if (!fs::exists(folder)) return false;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().extension() == ".bin") return true;
  }
  return false;
}

TEST_F(ArrowRecords, ConversationsBecomeRowsAndNothingHalfWrittenStays) {
  const test::TempDir folder;
  const fs::path good = folder.path() / "good", bad = folder.path() / "bad";
  const auto refused = [&](const std::string& name) {
    const std::string text = message_of<ConfigError>([&] { make_rows(rows_options(name, bad)); });
    EXPECT_FALSE(holds_a_file(bad)) << name;
    return text;
  };
  if (!is_built_) {
    EXPECT_THAT(refused("chats.parquet"), HasSubstr(kRefusal));
    return;
  }
  const std::string prefix = make_rows(rows_options("chats.parquet", good));
  EXPECT_EQ(IndexedDataset(prefix).document_count(), 3);
  EXPECT_THAT(refused("foreign.parquet"), HasSubstr("column when has type"));
  // A row without a conversation: its place is told.
  EXPECT_THAT(refused("rows.parquet"), HasSubstr("rows.parquet row "));
}

}  // namespace
}  // namespace tessera
