// Records of files, what is done to them, and the rows that are made and kept.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/data/indexed_dataset.h"
#include "tessera/data/inspect.h"
#include "tessera/data/mask_file.h"
#include "tessera/data/records/make_rows.h"
#include "tessera/data/records/row_maker.h"
#include "tests/data/token_files.h"
#include "tests/support/case_path.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using testing::ElementsAre;
using testing::HasSubstr;

const fs::path kCase = test::case_path("sft_mask64");

class Records : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }
  // Values of one column after the handlers.
  std::vector<std::string> column(const std::string& kind, const std::string& path,
                                  const std::vector<RecordHandler>& handlers,
                                  const std::string& name) const {
    std::vector<std::string> values;
    handled_records(kind, {path}, handlers, [&](Record&& record) {
      values.push_back(record.columns.at(name).get<std::string>());
      return true;
    });
    return values;
  }
  RowsOptions rows(const std::string& kind, const std::string& path) const {
    RowsOptions options;
    options.kind = kind;
    options.files = {path};
    options.tokenizer = (kCase / "tokenizer").string();
    options.chat_template = "chatml";
    options.seq_length = 64;
    options.cache_dir = (folder_ / "cache").string();
    return options;
  }

  test::TempDir folder_;
};

TEST_F(Records, FilesOfEveryKind) {
  EXPECT_THAT(column("json", file("a.jsonl", "{\"x\": \"1\"}\n\n{\"x\": \"2\"}"), {}, "x"),
              ElementsAre("1", "2"));
  EXPECT_THAT(column("json", file("a.json", " [{\"x\": \"1\"}, {\"x\": \"2\"}]"), {}, "x"),
              ElementsAre("1", "2"));
  EXPECT_THAT(column("text", file("a.txt", "one\r\ntwo\n\nthree"), {}, "text"),
              ElementsAre("one", "two", "three"));
  EXPECT_THAT(column("csv", file("a.csv", "x,y\r\n1,\"a, \"\"b\"\"\nc\"\n\n2,\n3,z"), {}, "y"),
              ElementsAre("a, \"b\"\nc", "", "z"));
}

TEST_F(Records, WhatIsNoRecordIsNamedWithItsPlace) {
  const auto said = [&](const std::string& kind, const std::string& name, const std::string& text) {
    const std::string path = file(name, text);
    return message_of<ConfigError>([&] { column(kind, path, {}, kind == "text" ? "text" : "x"); });
  };
  EXPECT_THAT(said("json", "a.jsonl", "{\"x\": \"1\"}\n{\"x\": "), HasSubstr("a.jsonl:2: no JSON"));
  EXPECT_THAT(said("json", "a.jsonl", "3\n"), HasSubstr("a.jsonl:1: must be an object"));
  EXPECT_THAT(said("json", "a.json", "[{\"x\": \"1\"}, 3]"), HasSubstr("a.json [1]: must be"));
  EXPECT_THAT(said("csv", "a.csv", "x,y\n1,2\n3\n"),
              HasSubstr("a.csv:3: 1 fields, the first line names 2 columns"));
  EXPECT_THAT(said("csv", "a.csv", "x\n\"1\n"), HasSubstr("a.csv:2: a quoted field"));
  EXPECT_THAT(said("csv", "a.csv", ""), HasSubstr("no line that names the columns"));
  EXPECT_THAT(said("text", "a.txt", "a\n\xff\n"), HasSubstr("a.txt:2: a byte that is no UTF-8"));
  EXPECT_THAT(message_of<ConfigError>([&] { column("json", "/nowhere.json", {}, "x"); }),
              HasSubstr("/nowhere.json: cannot be read"));
}

TEST_F(Records, HandlersAreAppliedInOrder) {
  std::string lines;
  for (int i = 0; i < 6; ++i) lines += "{\"x\": \"" + std::to_string(i) + "\", \"z\": 1}\n";
  const std::string path = file("a.jsonl", lines);
  const RecordHandler take{"take", {{"n", {"2"}}}};
  const RecordHandler select{"select", {{"indices", {"4", "1", "3"}}}};
  const RecordHandler rename{"rename_column",
                             {{"original_column_name", {"x"}}, {"new_column_name", {"y"}}}};
  const RecordHandler remove{"remove_columns", {{"column_names", {"z"}}}};
  EXPECT_THAT(column("json", path, {take}, "x"), ElementsAre("0", "1"));
  EXPECT_THAT(column("json", path, {select, take}, "x"), ElementsAre("4", "1"));
  EXPECT_THAT(column("json", path, {rename, remove, take}, "y"), ElementsAre("0", "1"));
  const auto shuffled = column("json", path, {{"shuffle", {{"seed", {"7"}}}}}, "x");
  EXPECT_EQ(std::set<std::string>(shuffled.begin(), shuffled.end()).size(), 6U);
  EXPECT_EQ(shuffled, column("json", path, {{"shuffle", {{"seed", {"7"}}}}}, "x"));
  EXPECT_NE(shuffled, column("json", path, {{"shuffle", {{"seed", {"8"}}}}}, "x"));

  const auto said = [&](const RecordHandler& handler) {
    return message_of<ConfigError>([&] { column("json", path, {handler}, "x"); });
  };
  EXPECT_THAT(said({"map", {}}), HasSubstr("handler map: must be one of take, select"));
  EXPECT_THAT(said({"take", {}}), HasSubstr("handler take needs n"));
  EXPECT_THAT(said({"take", {{"n", {"-1"}}}}), HasSubstr("n must be an integer"));
  EXPECT_THAT(said({"take", {{"n", {"1"}}, {"m", {"1"}}}}), HasSubstr("does not know m"));
  EXPECT_THAT(said({"select", {{"indices", {"9"}}}}), HasSubstr("index 9 of 6 rows"));
  EXPECT_THAT(said({"remove_columns", {{"column_names", {"q"}}}}),
              HasSubstr("a.jsonl:1: no column q to remove"));
}

TEST_F(Records, IdsThatAreGiven) {
  const auto made = [&](const char* text) {
    RowMaker maker((kCase / "tokenizer").string(), "", false);
    return *maker.make({nlohmann::json::parse(text), {"a.jsonl", 5, 0, "", false}});
  };
  const ChatTokens row = made(R"({"input_ids": [5, 6, 7], "labels": [-100, -100, 7]})");
  EXPECT_THAT(row.ids, ElementsAre(5, 6, 7));
  EXPECT_THAT(row.counts, ElementsAre(0, 0, 1));
  EXPECT_THAT(message_of<ConfigError>([&] { made(R"({"input_ids": [5], "labels": [6]})"); }),
              HasSubstr("a.jsonl:5: labels[0] is 6: must be input_ids at the same place, or -100"));
  EXPECT_THAT(message_of<ConfigError>([&] { made(R"({"input_ids": "x"})"); }),
              HasSubstr("column input_ids must hold lists"));
}

TEST_F(Records, AlpacaAsMindFormersWritesIt) {
  RowMaker maker((kCase / "tokenizer").string(), "", true);
  const auto row = maker.make(
      {nlohmann::json::parse(R"({"instruction": "do", "input": "it", "output": "done"})"),
       {"a", 1, 0, "", false}});
  const std::string text = maker.tokenizer().decode(row->ids, false);
  EXPECT_THAT(text, testing::StartsWith("A chat between a curious user"));
  EXPECT_THAT(text, HasSubstr("questions. USER: Below is an instruction that describes a task, "
                              "paired with an input"));
  EXPECT_THAT(text, testing::EndsWith("\n\n### Instruction:\ndo\n\n### Input:\nit\n\n### "
                                      "Response: ASSISTANT: done</s>"));
  std::vector<int32_t> counted;
  for (size_t i = 0; i < row->ids.size(); ++i) {
    if (row->counts[i] != 0) counted.push_back(row->ids[i]);
  }
  EXPECT_EQ(maker.tokenizer().decode(counted, false), "ASSISTANT: done</s>");
}

TEST_F(Records, RowsAreMadeOnceForTheSameContent) {
  const std::string line = R"({"prompt": "q", "completion": "a"})";
  const std::string path = file("a.jsonl", line + "\n" + line + "\n");
  const RowsOptions options = rows("json", path);
  std::vector<std::string> prefixes(4);
  {
    std::vector<std::jthread> threads;  // as several processes that start together
    for (std::string& prefix : prefixes) {
      threads.emplace_back([&] { prefix = make_rows(options); });
    }
  }
  for (const std::string& prefix : prefixes) EXPECT_EQ(prefix, prefixes[0]);
  EXPECT_EQ(IndexedDataset(prefixes[0]).document_count(), 2);
  EXPECT_TRUE(is_token_file(mask_prefix(prefixes[0])));

  const auto written = fs::last_write_time(prefixes[0] + ".bin");
  EXPECT_EQ(make_rows(options), prefixes[0]);
  EXPECT_EQ(fs::last_write_time(prefixes[0] + ".bin"), written);
  RowsOptions packed = options;
  packed.packing = true;
  EXPECT_NE(make_rows(packed), prefixes[0]);
  file("a.jsonl", line + "\n");
  EXPECT_NE(make_rows(options), prefixes[0]);
}

TEST_F(Records, WhatCannotBeLeavesNothing) {
  const std::string path =
      file("a.jsonl", "{\"prompt\": \"q\", \"completion\": \"a\"}\n{\"x\": 1}\n");
  RowsOptions options = rows("json", path);
  EXPECT_THAT(message_of<ConfigError>([&] { make_rows(options); }),
              HasSubstr("a.jsonl:2: none of messages, prompt, instruction, text"));
  for (const auto& entry : fs::directory_iterator(folder_ / "cache")) {
    EXPECT_EQ(entry.path().extension(), ".lock");
  }
  options.size = 1;
  EXPECT_EQ(IndexedDataset(make_rows(options)).document_count(), 1);
  options.vocab_size = 263;
  EXPECT_THAT(message_of<ConfigError>([&] { make_rows(options); }),
              HasSubstr("the tokenizer has 264 tokens, model.vocab_size is 263"));
  options = rows("json", file("b.jsonl", R"({"messages": [{"role": "user", "content": "q"}]})"));
  EXPECT_THAT(
      message_of<ConfigError>([&] { make_rows(options); }),
      HasSubstr("no record to learn from (1 read; 1 without an answer left out, the first: "));
  EXPECT_THAT(message_of<ConfigError>([&] { make_rows(rows("json", "/nowhere")); }),
              HasSubstr("/nowhere: no such file"));
}

}  // namespace
}  // namespace tessera
