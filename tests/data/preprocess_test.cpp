#include "tessera/data/preprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tessera/base/error.h"
#include "tessera/data/indexed_dataset.h"
#include "tessera/data/inspect.h"
#include "tests/data/token_files.h"
#include "tests/support/case_path.h"

namespace tessera {
namespace {

using test::message_of;
using ::testing::HasSubstr;

class Preprocess : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  PreprocessReport run(const std::vector<std::string>& inputs) {
    options_.source.inputs = inputs;
    options_.output_prefix = folder_ / "out" / "tokens";
    return preprocess(options_, *tokenizer_);
  }
  // The documents of the output; a byte as its character, the EOD as '|'.
  std::vector<std::string> documents() const {
    const IndexedDataset file(options_.output_prefix);
    std::vector<std::string> texts;
    for (int64_t i = 0; i < file.sequence_count(); ++i) {
      std::vector<int64_t> ids(static_cast<size_t>(file.length(i)));
      file.read(i, 0, ids);
      texts.emplace_back();
      for (const int64_t id : ids) texts.back() += id == 256 ? '|' : static_cast<char>(id);
    }
    return texts;
  }
  std::string output_bytes() const {
    std::string bytes;
    for (const char* suffix : {".bin", ".idx"}) {
      std::ifstream in(options_.output_prefix + suffix, std::ios::binary);
      bytes.append(std::istreambuf_iterator<char>(in), {});
    }
    return bytes;
  }

  test::TempDir folder_;
  std::unique_ptr<Tokenizer> tokenizer_ = make_byte_tokenizer();
  PreprocessOptions options_;
};

TEST_F(Preprocess, ATextFileIsADocumentAndAJsonLineToo) {
  const auto report = run({file("a.txt", "one\ntwo\n"), file("empty.txt", ""),
                           file("b.jsonl",
                                "{\"text\": \"th\\u00e9\"}\n\n  \r\n"
                                "{\"id\": 1, \"text\": \"\"}\n{\"text\": \"end\"}")});
  EXPECT_EQ(documents(), (std::vector<std::string>{"one\ntwo\n", "th\xc3\xa9", "end"}));
  EXPECT_EQ(report.documents, 3);
  EXPECT_EQ(report.empty_documents, 2);
  EXPECT_EQ(report.tokens, 8 + 4 + 3);
  const IndexedDataset out(options_.output_prefix);
  EXPECT_EQ(out.dtype(), TokenDtype::kUInt16);
  EXPECT_EQ(out.document_count(), 3);
}

TEST_F(Preprocess, AppendsTheEodAndTakesAnotherKey) {
  options_.append_eod = true;
  options_.source.json_key = "body";
  run({file("a.json", "{\"body\": \"x\", \"text\": \"no\"}\n{\"body\": \"yz\"}\n"),
       file("b.txt", "end")});
  EXPECT_EQ(documents(), (std::vector<std::string>{"x|", "yz|", "end|"}));
}

TEST_F(Preprocess, AllBytesSurvive) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  options_.source.format = TextFormat::kBytes;
  run({file("bytes.txt", all)});
  EXPECT_EQ(documents(), std::vector<std::string>{all});
}

TEST_F(Preprocess, TheNumberOfWorkersDoesNotShow) {
  // Several tasks: a JSONL file of more than 8 MB, and small files around it.
  std::string lines;
  for (int i = 0; lines.size() < 9000000; ++i) {
    lines += "{\"text\": \"document " + std::to_string(i) + std::string(i % 2000, 'x') + "\"}\n";
  }
  std::vector<std::string> inputs = {file("large.jsonl", lines)};
  for (int i = 0; i < 5; ++i) {
    const std::string name = "s" + std::to_string(i) + ".txt";
    inputs.insert(i % 2 == 0 ? inputs.begin() : inputs.end(), file(name, "small " + name));
  }
  options_.append_eod = true;
  run(inputs);
  const std::string alone = output_bytes();
  for (const int64_t workers : {2, 5}) {
    options_.workers = workers;
    run(inputs);
    EXPECT_TRUE(output_bytes() == alone) << workers;
  }
}

TEST_F(Preprocess, ProgressEndsWithEverything) {
  options_.source.inputs = {file("a.txt", "12345"), file("b.txt", "678")};
  options_.output_prefix = folder_ / "p";
  PreprocessProgress last;
  preprocess(options_, *tokenizer_, [&](const PreprocessProgress& now) { last = now; });
  EXPECT_EQ(last.bytes_done, 8);
  EXPECT_EQ(last.bytes_total, 8);
  EXPECT_EQ(last.documents, 2);
  EXPECT_EQ(last.tokens, 8);
}

TEST_F(Preprocess, MistakesAreNamedAndLeaveNothing) {
  const std::string good = "{\"text\": \"a\"}\n";
  const auto expect = [&](const std::vector<std::string>& inputs, const std::string& words) {
    EXPECT_THAT(message_of<ConfigError>([&] { run(inputs); }), HasSubstr(words));
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / "out") ||
                !std::filesystem::exists(folder_ / "out"));
  };
  std::filesystem::create_directories(folder_ / "out");
  expect({}, "no input files");
  expect({folder_ / "none.txt"}, "none.txt: cannot open");
  expect({folder_.path()}, "Is a directory");
  expect({file("a.jsonl", good + good + "{\"text\": \n")}, "a.jsonl:3: no JSON");
  expect({file("b.jsonl", good + "\n[1]\n")}, "b.jsonl:3: no JSON object");
  expect({file("c.jsonl", good + "{\"txt\": \"a\"}\n")}, "c.jsonl:2: no field \"text\"");
  expect({file("d.jsonl", "{\"text\": 5}")}, "d.jsonl:1: field \"text\" is no text");
  expect({file("e.jsonl", good + "{\"text\": \"\xff\"}")},
         "e.jsonl:2: field \"text\" holds a byte that is no UTF-8");
  expect({file("f.txt", "")}, "no text");
  options_.workers = 3;
  expect({file("a.txt", "fine"), file("a.jsonl", good + "x")}, "a.jsonl:2");
}

TEST(Tokenizer, SpecsAreByteOrSentencePiece) {
  EXPECT_EQ(make_tokenizer("byte")->vocab_size(), 258);
  EXPECT_EQ(make_tokenizer("byte")->eod(), 256);
  EXPECT_EQ(make_tokenizer("byte")->pad(), 257);
  for (const char* bad : {"", "bytes", "sentencepiece", "sentencepiece:"}) {
    EXPECT_THAT(message_of<ConfigError>([&] { make_tokenizer(bad); }),
                HasSubstr("known are byte, sentencepiece:MODEL"));
  }
  EXPECT_THAT(message_of<ConfigError>([] { make_tokenizer("sentencepiece:/nowhere.model"); }),
              HasSubstr("/nowhere.model"));
  EXPECT_THAT(message_of<ConfigError>([] { make_tokenizer("sentencepiece:/"); }),
              HasSubstr("a folder"));
}

// tiny.model: BPE, 100 pieces, identity normalisation, trained on an English licence by spm_train;
// the ids are what spm_encode 0.1.97 makes of the texts.
TEST(Tokenizer, SentencePieceEncodesAsItsOwnProgram) {
  const auto model = test::source_dir() / "tests" / "data" / "tiny.model";
  const auto tokenizer = make_tokenizer("sentencepiece:" + model.string());
  EXPECT_EQ(tokenizer->vocab_size(), 100);
  EXPECT_EQ(tokenizer->eod(), 2);
  EXPECT_EQ(tokenizer->pad(), std::nullopt);
  std::vector<int32_t> ids = {99};  // kept: encode appends
  tokenizer->encode("the work and 3 tests", ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{99, 12, 25, 46, 4, 48, 15, 36, 25, 94, 3, 26, 33, 27, 33}));
  ids.clear();
  tokenizer->encode("na\xc3\xafve  tessera", ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{25, 30, 32, 0, 47, 26, 3, 26, 33, 33, 10, 32}));
}

TEST(Inspect, TellsWhatAFileHolds) {
  const auto path = (test::case_path("blend") / "data" / "c").string();
  auto report = inspect_token_file(path, false);
  EXPECT_EQ(report.dtype, TokenDtype::kInt32);
  EXPECT_EQ(report.sequences, 90);
  EXPECT_EQ(report.documents, 90);
  EXPECT_EQ(report.tokens, 12732 / 4);
  EXPECT_EQ(report.unused_bytes, 0);
  EXPECT_FALSE(report.tokens_read);
  EXPECT_NEAR(report.mean_length, 3183.0 / 90, 1e-12);
  report = inspect_token_file(path + ".idx", true, 2);
  EXPECT_EQ(report.smallest_id, 2);
  EXPECT_LT(report.largest_id, 512);
  EXPECT_EQ(report.eod_count, 90);
  EXPECT_THAT(to_text(report), HasSubstr("tokens      3183\n"));
  EXPECT_TRUE(is_token_file(path));
  EXPECT_TRUE(is_token_file(path + ".bin"));
  EXPECT_FALSE(is_token_file(path + "x"));
}

TEST(Inspect, FindsNegativeIdsAndUnusedBytes) {
  const test::TempDir folder;
  const auto prefix =
      test::write_token_file(folder / "f", {{1, 2}, {}, {3, -1}}, TokenDtype::kInt32);
  EXPECT_EQ(inspect_token_file(prefix, false).shortest, 0);
  EXPECT_THAT(message_of<ConfigError>([&] { inspect_token_file(prefix, true); }),
              HasSubstr("token id -1 in sequence 2 at offset 1"));
  std::filesystem::resize_file(prefix + ".bin", 21);
  EXPECT_EQ(inspect_token_file(prefix, false).unused_bytes, 5);
  EXPECT_THAT(to_text(inspect_token_file(prefix, false)), HasSubstr("unused      5 bytes"));
  const auto none = test::write_token_file(folder / "none", {});
  EXPECT_EQ(inspect_token_file(none, true).sequences, 0);
}

}  // namespace
}  // namespace tessera
