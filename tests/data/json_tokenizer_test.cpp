// What a tokenizer.json may hold, and what is refused with its place.

#include "tessera/data/tokenizer/json_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tessera/data/tokenizer/byte_letters.h"
#include "tessera/data/tokenizer/regex_syntax.h"
#include "tessera/data/tokenizer/train_tokenizer.h"
#include "tessera/data/tokenizer/unicode.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Ids = std::vector<int32_t>;
using testing::HasSubstr;

class JsonTokenizerTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              (std::string("json_tokenizer_") +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Bytes and the merges "a b", "ab c"; <x> is an added token.
  static Json file() {
    Json vocabulary = Json::object();
    for (int byte = 0; byte < 256; ++byte) {
      vocabulary[byte_letters()[static_cast<size_t>(byte)]] = byte;
    }
    vocabulary["ab"] = 256;
    vocabulary["abc"] = 257;
    return {{"added_tokens", {{{"id", 258}, {"content", "<x>"}, {"special", true}}}},
            {"pre_tokenizer",
             {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
            {"decoder", {{"type", "ByteLevel"}}},
            {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", {"a b", "ab c"}}}}};
  }

  std::string write(const Json& json, const std::string& name = "tokenizer.json") const {
    const fs::path path = folder_ / name;
    std::ofstream(path) << json.dump();
    return path.string();
  }

  std::string refusal(const Json& json) const {
    try {
      const JsonTokenizer tokenizer(write(json));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  }

  fs::path folder_;
};

Ids ids_of(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  tokenizer.encode(text, ids);
  return ids;
}

TEST_F(JsonTokenizerTest, MergesByRankAndFindsAddedTokens) {
  const JsonTokenizer tokenizer(write(file()));
  EXPECT_EQ(ids_of(tokenizer, "abcab<x>b"), (Ids{257, 256, 258, 'b'}));
  EXPECT_EQ(tokenizer.vocab_size(), 259);
  EXPECT_EQ(tokenizer.decode(Ids{257, 258}, true), "abc");
  EXPECT_EQ(tokenizer.piece(257), "abc");
  EXPECT_EQ(tokenizer.piece(300), std::nullopt);
}

TEST_F(JsonTokenizerTest, LongWordsMergeAsShortOnes) {
  const JsonTokenizer tokenizer(write(file()));
  std::string text;
  Ids expected;
  for (int i = 0; i < 20000; ++i) {
    text += i % 3 == 0 ? "abc" : "ab";
    expected.push_back(i % 3 == 0 ? 257 : 256);
  }
  EXPECT_EQ(ids_of(tokenizer, text), expected);
}

TEST_F(JsonTokenizerTest, ThreadsShareIt) {
  const JsonTokenizer tokenizer(write(file()));
  std::vector<Ids> found(4);
  {
    std::vector<std::jthread> threads;
    for (Ids& ids : found) {
      threads.emplace_back([&] {
        for (int i = 0; i < 2000; ++i) tokenizer.encode("abc " + std::to_string(i), ids);
      });
    }
  }
  for (const Ids& ids : found) EXPECT_EQ(ids, found[0]);
  EXPECT_GT(found[0].size(), 6000U);
}

TEST_F(JsonTokenizerTest, TokensThatStayText) {
  const JsonTokenizer tokenizer(write(file()));
  const std::unordered_set<int32_t> as_text = {258};
  Ids ids;
  tokenizer.encode_part("a<x>", true, &as_text, ids);
  EXPECT_EQ(ids, (Ids{'a', '<', 'x', '>'}));
}

// Values of the `tokenizers` package.
TEST_F(JsonTokenizerTest, BlanksThatATokenTookAreNoTokensAnyMore) {
  Json json = file();
  json["added_tokens"] = {
      {{"id", 258}, {"content", "\n"}, {"lstrip", true}, {"rstrip", true}, {"normalized", false}},
      {{"id", 259}, {"content", "\t"}, {"lstrip", true}, {"normalized", false}}};
  const JsonTokenizer tokenizer(write(json));
  EXPECT_EQ(ids_of(tokenizer, "a \n\nb"), (Ids{'a', 258, 'b'}));
  EXPECT_EQ(ids_of(tokenizer, "a\n \n \nb\n"), (Ids{'a', 258, 'b', 258}));
  EXPECT_EQ(ids_of(tokenizer, "a \t\tb"), (Ids{'a', 259, 259, 'b'}));
}

// What a word character is has three answers in the `tokenizers` package.
TEST_F(JsonTokenizerTest, WordCharacters) {
  const auto words = [&](const Json& step, const std::string& text) {
    Json json = file();
    json["pre_tokenizer"] = {
        {"type", "Sequence"},
        {"pretokenizers",
         {step, {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"use_regex", false}}}}};
    json["added_tokens"] = Json::array();
    const JsonTokenizer tokenizer(write(json));
    return tokenizer.decode(ids_of(tokenizer, text), false);  // a blank in front of every word
  };
  const auto split = [](const char* pattern) {
    return Json{{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}};
  };
  EXPECT_EQ(words({{"type", "Whitespace"}}, "a\u200cb \u00b2x"), " a\u200cb \u00b2 x");
  EXPECT_EQ(words(split(R"(\w+)"), "-\u00b2x\u200c"), " - \u00b2x \u200c");
  EXPECT_EQ(words(split(R"([\w]+)"), "-\u00b2x"), " -\u00b2 x");
  EXPECT_EQ(words(split(R"(\b)"), "-\u00bd-"), " - \u00bd -");
}

// Values of the `tokenizers` package.
TEST_F(JsonTokenizerTest, NormalizedTokensAreWrittenInTheirNormalForm) {
  Json json = file();
  json["normalizer"] = {{"type", "Lowercase"}};
  json["added_tokens"] = {
      {{"id", 258}, {"content", "<X>"}, {"special", true}, {"normalized", true}},
      {{"id", 259}, {"content", "<y>"}, {"special", true}, {"normalized", true}},
      {{"id", 260}, {"content", "<Z>"}, {"special", false}, {"normalized", true}},
      {{"id", 261}, {"content", "<z>"}, {"special", true}, {"normalized", false}}};
  const JsonTokenizer tokenizer(write(json));
  EXPECT_EQ(ids_of(tokenizer, "a<X>b<x><Z><z>"), (Ids{'a', 258, 'b', 258, 260, 261}));
  EXPECT_EQ(tokenizer.decode(Ids{258, 259, 260, 261}, false), "<x><y><z><z>");
  EXPECT_EQ(tokenizer.decode(Ids{258, 259, 260, 261}, true), "<x>");
}

TEST_F(JsonTokenizerTest, EndAndPadComeFromTheConfig) {
  write({{"eos_token", {{"content", "<x>"}}}, {"pad_token", "a"}}, "tokenizer_config.json");
  const JsonTokenizer tokenizer(write(file()));
  EXPECT_EQ(tokenizer.eod(), 258);
  EXPECT_EQ(tokenizer.pad(), 'a');
  write({{"eos_token", "<y>"}}, "tokenizer_config.json");
  EXPECT_THAT(refusal(file()), HasSubstr("tokenizer_config.json: eos_token: \"<y>\" is no token"));
}

TEST_F(JsonTokenizerTest, WhatIsNotKnownIsRefusedByNameAndPlace) {
  const auto changed = [&](const std::string& pointer, const Json& value) {
    Json json = file();
    json[Json::json_pointer(pointer)] = value;
    return refusal(json);
  };
  EXPECT_EQ(changed("/version", "1.0"), "accepted");
  EXPECT_THAT(changed("/normalizer", {{"type", "BertNormalizer"}}),
              HasSubstr("tokenizer.json: normalizer.type: \"BertNormalizer\" is not known"));
  EXPECT_THAT(changed("/pre_tokenizer",
                      {{"type", "Sequence"}, {"pretokenizers", {{{"type", "Nonsense"}}}}}),
              HasSubstr("pre_tokenizer.pretokenizers[0].type: \"Nonsense\" is not known"));
  EXPECT_THAT(changed("/pre_tokenizer/more", 1), HasSubstr("pre_tokenizer: more is not known"));
  EXPECT_THAT(changed("/decoder", {{"type", "CTC"}}), HasSubstr("decoder.type: \"CTC\""));
  EXPECT_THAT(changed("/post_processor", {{"type", "BertProcessing"}}),
              HasSubstr("post_processor.type: \"BertProcessing\""));
  EXPECT_THAT(changed("/model/type", "Unigram"), HasSubstr("model.type: \"Unigram\""));
  EXPECT_THAT(changed("/model/dropout", 0.1), HasSubstr("model.dropout: must be null"));
  EXPECT_THAT(changed("/model/end_of_word_suffix", "</w>"), HasSubstr("model.end_of_word_suffix"));
  EXPECT_THAT(changed("/model/merges", {"a q_"}), HasSubstr("merge 0 needs \"q_\""));
  EXPECT_THAT(changed("/model/merges", {"ab"}), HasSubstr("merge 0 has no blank"));
  EXPECT_THAT(changed("/model/vocab/a", -3), HasSubstr("the id of \"a\""));
  EXPECT_THAT(changed("/added_tokens/0/content", "abc"), HasSubstr("has id 258 here and 257"));
  EXPECT_THAT(changed("/surprise", 1), HasSubstr("surprise is not known"));
  const Json split = {{"type", "Split"}, {"behavior", "Isolated"}};
  Json bad = split;
  bad["pattern"] = {{"Regex", "a[b"}};
  EXPECT_THAT(changed("/pre_tokenizer", bad),
              HasSubstr("pre_tokenizer.pattern.Regex: regex: a set that is not closed (byte 2"));
  bad["pattern"] = {{"Regex", "x\\K"}};
  EXPECT_THAT(changed("/pre_tokenizer", bad), HasSubstr("\\K is not known (byte 2"));
  bad["behavior"] = "Torn";
  bad["pattern"] = {{"String", "x"}};
  EXPECT_THAT(changed("/pre_tokenizer", bad), HasSubstr("pre_tokenizer.behavior: \"Torn\""));
}

TEST_F(JsonTokenizerTest, ABrokenFileIsNamed) {
  std::ofstream(folder_ / "tokenizer.json") << "{\"model\": ";
  EXPECT_THROW(JsonTokenizer(folder_.string()), ConfigError);
  EXPECT_THROW(JsonTokenizer((folder_ / "none.json").string()), ConfigError);
}

TEST_F(JsonTokenizerTest, ARegexThatGivesUpSaysWhere) {
  Json json = file();
  // Every way to cut a run of a is tried before the match fails.
  json["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", "(?:a+)+c"}}}, {"behavior", "Isolated"}};
  const JsonTokenizer tokenizer(write(json));
  Ids ids;
  try {
    tokenizer.encode("<x>" + std::string(5000, 'a') + "bc", ids);
    FAIL() << "no error";
  } catch (const EncodeError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the regex gives up"));
    EXPECT_EQ(error.at(), 3U);
  }
}

TEST_F(JsonTokenizerTest, BytesThatAreNoTextAreRefusedWithTheirPlace) {
  const JsonTokenizer tokenizer(write(file()));
  Ids ids;
  try {
    tokenizer.encode("ab\xff", ids);
    FAIL() << "no error";
  } catch (const EncodeError& error) {
    EXPECT_EQ(error.at(), 2U);
  }
}

TEST(RegexSyntax, NestedSetsAreFlattenedAndSpaceIsUnicodes) {
  EXPECT_EQ(to_pcre_syntax(R"([^(\s|[.,])])"), R"([^(\p{White_Space}|.,)])");
  EXPECT_EQ(to_pcre_syntax(R"(\p{N}{1,3}+)"), R"((?:\p{N}{1,3})+)");
  EXPECT_EQ(to_pcre_syntax(R"(\x41{,2}(?m).)"), R"(\x41{0,2}(?s).)");
  EXPECT_EQ(to_pcre_syntax(R"(\x41{1,2}+\x{263A}{2}+)"), R"((?:\x41{1,2})+(?:\x{263A}{2})+)");
  EXPECT_EQ(to_pcre_syntax(R"(\p{Han}[\p{^Greek}\P{L}]\p{Letter}\p{Emoji})"),
            R"(\p{sc:Han}[\p{^sc:Greek}\P{L}]\p{L}\p{Emoji})");
  EXPECT_EQ(to_pcre_syntax("[[:punct:]]"), R"([\p{P}\p{S}])");
  EXPECT_THROW(to_pcre_syntax("[a&&b]"), ConfigError);
  EXPECT_THROW(to_pcre_syntax("(a"), ConfigError);
  EXPECT_THROW(to_pcre_syntax("a)"), ConfigError);
  EXPECT_THROW(to_pcre_syntax("a\\"), ConfigError);
}

TEST(UnicodeText, NormalFormsReachOverPlainCharacters) {
  EXPECT_EQ(normal_form(NormalForm::kNfc, "xe\u0301y"), "x\u00e9y");
  EXPECT_EQ(normal_form(NormalForm::kNfd, "x\u00e9y"), "xe\u0301y");
  EXPECT_EQ(normal_form(NormalForm::kNfkc, "\ufb01n"), "fin");
  EXPECT_EQ(normal_form(NormalForm::kNfc, "\u0301"), "\u0301");
  EXPECT_EQ(normal_form(NormalForm::kNfc, "a\u08d3\u0301"), "a\u08d3\u0301");  // newer: inert
  EXPECT_EQ(lower_case("\u0130A\u00c9"), "i\u0307a\u00e9");
  EXPECT_EQ(stripped(" \u3000x\u00a0", true, true), "x");
}

TEST_F(JsonTokenizerTest, ATrainedOneReadsBackItsText) {
  TrainTokenizerOptions options;
  const std::string text = "the cat sat on the mat, the cat sat on the hat. Caf\u00e9 12345\n";
  const fs::path input = folder_ / "in.txt";
  std::ofstream(input) << text << text;
  options.source.inputs = {input.string()};
  options.output = (folder_ / "made").string();
  options.vocab_size = 270;
  options.special = {"<end>", "<pad>"};
  const TrainTokenizerReport report = train_tokenizer(options);
  EXPECT_EQ(report.vocab_size, 270);
  const JsonTokenizer tokenizer(options.output);
  EXPECT_EQ(tokenizer.vocab_size(), 270);
  EXPECT_EQ(tokenizer.eod(), 268);
  const Ids ids = ids_of(tokenizer, text);
  EXPECT_LT(ids.size(), text.size());
  EXPECT_EQ(tokenizer.decode(ids, false), text);
  // The most frequent pair is the first merge: " t" (id of the blank's letter, of t).
  EXPECT_EQ(tokenizer.piece(256), "at");
}

TEST_F(JsonTokenizerTest, TrainingRefusesWhatCannotBe) {
  TrainTokenizerOptions options;
  options.output = (folder_ / "made").string();
  options.source.inputs = {(folder_ / "none.txt").string()};
  EXPECT_THROW(train_tokenizer(options), ConfigError);
  std::ofstream(folder_ / "in.txt") << "abc";
  options.source.inputs = {(folder_ / "in.txt").string()};
  options.vocab_size = 256;
  EXPECT_THROW(train_tokenizer(options), ConfigError);
  options.vocab_size = 300;
  options.special = {"<a>", "<a>"};
  EXPECT_THROW(train_tokenizer(options), ConfigError);
  EXPECT_FALSE(fs::exists(options.output));
}

}  // namespace
}  // namespace tessera
