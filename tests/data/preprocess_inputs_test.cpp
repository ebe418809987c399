#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/data/indexed_dataset.h"
#include "tessera/data/preprocess.h"
#include "tests/data/compress.h"
#include "tests/data/token_files.h"

namespace tessera {
namespace {

using test::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Texts = std::vector<std::string>;

// What preprocess makes of inputs that are compressed, piped, broken.
class PreprocessInputs : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  PreprocessReport run(const Texts& inputs) {
    said_.clear();
    options_.source.inputs = inputs;
    options_.source.say = [this](const std::string& line) { said_.push_back(line); };
    options_.output_prefix = folder_ / "out" / "tokens";
    return preprocess(options_, *tokenizer_);
  }
  std::string error_of(const Texts& inputs) {
    return message_of<ConfigError>([&] { run(inputs); });
  }
  Texts documents() const {
    const IndexedDataset file(options_.output_prefix);
    Texts texts;
    for (int64_t i = 0; i < file.sequence_count(); ++i) {
      std::vector<int64_t> ids(static_cast<size_t>(file.length(i)));
      file.read(i, 0, ids);
      texts.emplace_back(ids.begin(), ids.end());
    }
    return texts;
  }
  std::vector<nlohmann::json> skipped() const {
    std::ifstream in(skipped_path(options_.output_prefix));
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
  Texts output_files() const {
    Texts names;
    if (!std::filesystem::exists(folder_ / "out")) return names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "out")) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  test::TempDir folder_;
  std::unique_ptr<Tokenizer> tokenizer_ = make_byte_tokenizer();
  PreprocessOptions options_;
  Texts said_;
};

constexpr const char* kTwoLines = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n";

TEST_F(PreprocessInputs, CompressedInputsAreReadAndSaid) {
  const std::string mark = "\xef\xbb\xbf";
  run({file("a.jsonl.gz", test::gzip(kTwoLines)), file("b.zst", test::zstd(kTwoLines)),
       file("c", test::xz(kTwoLines)), file("d.txt", test::lzma("text")),
       file("e.gz.bz2", test::bzip2(test::gzip("text"))), file("f.JSONL", mark + kTwoLines),
       file("g.txt", mark + "marked")});
  EXPECT_EQ(documents(), (Texts{"one", "two", "one", "two", "one", "two", "text", "text", "one",
                                "two", "marked"}));
  for (std::string& line : said_) line.erase(0, folder_.path().string().size() + 1);
  EXPECT_EQ(said_,
            (Texts{"a.jsonl.gz: JSON lines in gzip", "b.zst: JSON lines in zstd",
                   "c: JSON lines in xz", "d.txt: text in lzma", "e.gz.bz2: text in bzip2 in gzip",
                   "f.JSONL: JSON lines", "g.txt: text"}));
}

TEST_F(PreprocessInputs, APipeIsRead) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::jthread writer([&] { std::ofstream(pipe, std::ios::binary) << test::zstd(kTwoLines); });
  PreprocessProgress last;
  run({file("a.txt", "first"), pipe});
  EXPECT_EQ(documents(), (Texts{"first", "one", "two"}));
  EXPECT_THAT(said_.back(), HasSubstr("pipe: JSON lines in zstd"));
}

TEST_F(PreprocessInputs, ALongStreamIsCutAtLinesOnly) {
  std::string lines;
  Texts expected;
  for (int i = 0; lines.size() < 15000000; ++i) {
    expected.push_back(std::to_string(i) + std::string(static_cast<size_t>(i * 37 % 4001), 'x'));
    lines += "{\"text\": \"" + expected.back() + "\"}\n";
  }
  const std::string large = "{\"text\": \"" + std::string(6000000, 'y') + "\"}";
  const std::string path = file("a.gz", test::gzip(lines + large));
  expected.push_back(std::string(6000000, 'y'));
  options_.workers = 3;
  run({path});
  EXPECT_TRUE(documents() == expected);
}

TEST_F(PreprocessInputs, FormatsCanBeGiven) {
  options_.source.format = TextFormat::kBytes;
  run({file("a", kTwoLines), file("b.gz", test::gzip(std::string("a\0b", 3)))});
  EXPECT_EQ(documents(), (Texts{kTwoLines, std::string("a\0b", 3)}));
  options_.source.format = TextFormat::kJsonLines;
  EXPECT_THAT(error_of({file("c.txt", "text")}), HasSubstr("c.txt:1: no JSON"));
}

TEST_F(PreprocessInputs, SkippedDocumentsAreCountedAndNamed) {
  options_.on_error = OnError::kSkip;
  const std::string lines =
      "{\"text\": \"one\", \"v\": NaN}\n"
      "{\"text\": \"\\ud800\"}\n"
      "[]\n"
      "\n"
      "{\"text\": \"\"}\n"
      "{\"txt\": \"a\"}\n"
      "{\"text\": \"\xff\"}\n"
      "{\"text\": \"cut\n"
      "{\"text\": null}\n"
      "{\"text\": \"two\"}\n";
  const auto report = run({file("a.gz", test::gzip(lines)), file("latin.txt", "caf\xe9 x")});
  EXPECT_EQ(documents(), (Texts{"one", "two"}));
  EXPECT_EQ(report.skipped, 7);
  EXPECT_EQ(report.empty_documents, 1);
  EXPECT_THAT(report.first_skipped,
              ElementsAre(HasSubstr("a.gz:2: field \"text\" holds a lone surrogate"),
                          HasSubstr("a.gz:3: no JSON object"), HasSubstr("a.gz:6: no field"),
                          HasSubstr("a.gz:7: "), HasSubstr("a.gz:8: no JSON")));
  const auto places = skipped();
  ASSERT_EQ(places.size(), 8U);
  EXPECT_EQ(places[0]["line"], 2);
  EXPECT_EQ(places[0]["byte"], 26 + 10);
  EXPECT_EQ(places[2]["line"], 5);
  EXPECT_EQ(places[2]["reason"], "no text");
  EXPECT_EQ(places[6]["line"], 9);
  EXPECT_EQ(places[7].contains("line"), false);
  EXPECT_EQ(places[7]["byte"], 3);
  EXPECT_THAT(places[7]["file"].get<std::string>(), HasSubstr("latin.txt"));

  // An output without faults does not keep the older list.
  run({file("good", kTwoLines)});
  EXPECT_THAT(output_files(), ElementsAre("tokens.bin", "tokens.idx"));
}

TEST_F(PreprocessInputs, NothingIsLeftOfAFailure) {
  const std::string good = file("good.jsonl", kTwoLines);
  std::string long_text;
  for (int64_t i = 0; long_text.size() < 9000000; ++i) {
    long_text += "{\"text\": \"" + std::to_string(i * 7919 % 100003) + "\"}\n";
  }
  const std::string packed = test::gzip(long_text);
  const std::string cut = file("cut.gz", packed.substr(0, packed.size() - 9));
  for (const OnError on_error : {OnError::kStop, OnError::kSkip}) {
    options_.on_error = on_error;
    EXPECT_THAT(error_of({good, cut}), HasSubstr("cut.gz: the gzip data is cut off"));
    EXPECT_THAT(output_files(), ElementsAre());
  }
  EXPECT_THAT(error_of({file("bad", "{\"text\": 5}\n{\"a\": 5}\n")}),
              HasSubstr("no text: 2 skipped, the first is " + (folder_ / "bad").string() + ":1"));
  EXPECT_THAT(error_of({good, file("x.parquet", std::string("PAR1\0\0", 6))}),
              HasSubstr("a Parquet file"));
  EXPECT_THAT(error_of({"-", "-"}), HasSubstr("given twice"));
  EXPECT_THAT(output_files(), ElementsAre());
  // The index cannot be put into place: the other half does not stay either.
  options_.on_error = OnError::kStop;
  std::filesystem::create_directories(folder_ / "out" / "tokens.idx" / "in_the_way");
  EXPECT_THAT(error_of({good}), HasSubstr("cannot write"));
  EXPECT_THAT(output_files(), ElementsAre("tokens.idx"));
}

TEST_F(PreprocessInputs, TheFirstFaultOfTheInputsIsTheOneToldForAnyNumberOfWorkers) {
  std::string lines;
  while (lines.size() < 9000000) lines += "{\"text\": \"" + std::string(1000, 'x') + "\"}\n";
  const auto count = std::count(lines.begin(), lines.end(), '\n');
  const std::string path = file("a", lines + "first\n" + lines + "second\n");
  for (const int64_t workers : {1, 4}) {
    options_.workers = workers;
    EXPECT_THAT(error_of({path}), HasSubstr("a:" + std::to_string(count + 1) + ": no JSON"));
  }
}

TEST_F(PreprocessInputs, DocumentsBeyondTheBoundAreFaults) {
  options_.source.max_document_bytes = 100;
  const std::string most = "{\"text\": \"" + std::string(88, 'x') + "\"}";  // 100 bytes
  const std::string lines = most + "\n{\"text\": \"y" + std::string(88, 'x') + "\"}\n" +
                            "{\"text\": \"" + std::string(5000000, 'z') + "\"}\n" + most;
  const Texts inputs = {file("a", lines), file("t.txt", std::string(101, 't')),
                        file("u.txt", std::string(100, 'u'))};
  EXPECT_THAT(error_of(inputs), HasSubstr("a:2: longer than 100 bytes (--max-document-bytes)"));
  options_.on_error = OnError::kSkip;
  const auto report = run(inputs);
  EXPECT_EQ(documents(),
            (Texts{std::string(88, 'x'), std::string(88, 'x'), std::string(100, 'u')}));
  EXPECT_EQ(report.skipped, 3);
  const auto places = skipped();
  ASSERT_EQ(places.size(), 3U);
  EXPECT_EQ(places[0]["line"], 2);
  EXPECT_EQ(places[1]["line"], 3);
  EXPECT_EQ(places[1]["byte"], 101 + 102);
  EXPECT_THAT(places[2]["file"].get<std::string>(), HasSubstr("t.txt"));
}

}  // namespace
}  // namespace tessera
