#include "tessera/data/text/json_field.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "tessera/base/utf8.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

std::string field(const std::string& line, const std::string& key = "text") {
  std::string text;
  const auto fault = read_json_field(line, key, text);
  return fault ? "fault at " + std::to_string(fault->at) + ": " + fault->why : text;
}

TEST(JsonField, ReadsTheFieldAndNoOther) {
  EXPECT_EQ(field(R"({"text": "a"})"), "a");
  EXPECT_EQ(field(R"( { "x" : [1, {"text": "no"}, []], "text" : "a" , "y": {} } )"), "a");
  EXPECT_EQ(field(R"({"te\u0078t": "a"})"), "a");
  EXPECT_EQ(field(R"({"text": "a", "text": "last"})"), "last");
  EXPECT_EQ(field(R"({"text": 5, "text": "last"})"), "last");
  EXPECT_EQ(field(R"({"a\"b": "q"})", "a\"b"), "q");
  EXPECT_EQ(field(R"({"text": ""})"), "");
  EXPECT_EQ(field(R"({"text": "\"\\\/\b\f\n\r\t\u0041\u00e9\u20ac\ud83d\ude00\u0000|"})"),
            std::string("\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\0|", 20));
}

TEST(JsonField, WhatIsNotReadCannotBeAFault) {
  for (const char* value :
       {"NaN", "Infinity", "-Infinity", "1e999", "-1e-99999", "123456789012345678901234567890",
        R"("\ud800")", "\"\xff\"", "null", R"({"deep": [[[NaN]]]})"}) {
    EXPECT_EQ(field(std::string(R"({"v": )") + value + R"(, "text": "a"})"), "a") << value;
    EXPECT_EQ(field(std::string(R"({"text": "a", "v": )") + value + "}"), "a") << value;
  }
  const std::string deep = std::string(1000000, '[') + std::string(1000000, ']');
  EXPECT_EQ(field(R"({"v": )" + deep + R"(, "text": "a"})"), "a");
}

TEST(JsonField, FaultsHaveAReasonAndAPlace) {
  EXPECT_EQ(field(R"({"text": "ab\ud800c"})"),
            "fault at 12: field \"text\" holds a lone surrogate: \\ud800");
  EXPECT_THAT(field(R"({"text": "\udc00"})"), HasSubstr("at 10: field \"text\" holds a lone"));
  EXPECT_THAT(field(R"({"text": "\ud800\u0041"})"), HasSubstr("lone surrogate"));
  EXPECT_THAT(field("{\"text\": \"a\xff\"}"),
              HasSubstr("at 11: field \"text\" holds a byte that is"));
  EXPECT_THAT(field("{\"text\": \"\xed\xa0\x80\"}"), HasSubstr("no UTF-8"));
  EXPECT_EQ(field("[1]"), "fault at 0: no JSON object");
  EXPECT_EQ(field("\"text\""), "fault at 0: no JSON object");
  EXPECT_EQ(field(R"({"txt": "a"})"), "fault at 0: no field \"text\"");
  EXPECT_EQ(field(R"({"text": NaN})"), "fault at 9: field \"text\" is no text");
  EXPECT_EQ(field(R"({"text": null})"), "fault at 9: field \"text\" is no text");
  EXPECT_EQ(field(R"({"text": "a"} {})"), "fault at 14: no JSON: more after the object");
  for (const char* bad : {"",
                          "x",
                          "{",
                          "{\"text\"",
                          "{\"text\": ",
                          "{\"text\": \"a",
                          "{\"text\": \"a\"",
                          "{\"text\": \"a\",}",
                          "{\"text\" \"a\"}",
                          "{text: \"a\"}",
                          "{\"text\": \"a\", \"b\": [1,]}",
                          "{\"text\": \"a\", \"b\": 01}",
                          "{\"text\": \"a\", \"b\": +1}",
                          "{\"text\": \"a\", \"b\": 1.}",
                          "{\"text\": \"a\", \"b\": nul}",
                          "{\"text\": \"a\", \"b\": [}",
                          "{\"text\": \"a\", \"b\": {]}",
                          "{\"text\": \"a\tb\"}",
                          "{\"text\": \"\\x\"}",
                          "{\"b\": \"\\u12g4\", \"text\": \"a\"}"}) {
    EXPECT_THAT(field(bad), HasSubstr("no JSON: ")) << bad;
  }
}

// Against another parser: what it accepts of mutated lines is read alike. (It refuses more, since
// it also looks at what is not read.)
TEST(JsonField, AgreesWithAnotherParser) {
  const std::string seeds[] = {
      R"({"id": 12, "text": "a\u00e9\n", "meta": {"a": [1.5e3, true, null]}, "b": false})",
      R"({"a":[],"b":{},"text":"x\ud83d\ude00y","c":-0.5})"};
  const std::string letters = "{}[]\",:\\u0123eE+-.tfn x\xc3\xa9";
  std::mt19937 random(5);
  int accepted = 0;
  for (int i = 0; i < 40000; ++i) {
    std::string line = seeds[i % 2];
    for (int changes = static_cast<int>(random() % 3) + 1; changes > 0; --changes) {
      const size_t at = random() % line.size();
      switch (random() % 3) {
        case 0: line[at] = letters[random() % letters.size()]; break;
        case 1: line.erase(at, 1); break;
        default: line.insert(at, 1, letters[random() % letters.size()]);
      }
    }
    const auto expected = nlohmann::json::parse(line, nullptr, false);
    if (expected.is_discarded() || !expected.is_object() || !expected.contains("text") ||
        !expected["text"].is_string()) {
      continue;
    }
    ++accepted;
    EXPECT_EQ(field(line), expected["text"].get<std::string>()) << line;
  }
  EXPECT_GT(accepted, 1000);
}

TEST(JsonStart, TellsHowALineBegins) {
  EXPECT_EQ(json_start(R"({"a": 1} )"), JsonStart::kObject);
  EXPECT_EQ(json_start("[1]"), JsonStart::kValue);
  EXPECT_EQ(json_start("{"), JsonStart::kUnfinished);
  EXPECT_EQ(json_start(R"({"a": tr)"), JsonStart::kUnfinished);
  EXPECT_EQ(json_start("{a"), JsonStart::kNone);
  EXPECT_EQ(json_start("{} {}"), JsonStart::kNone);
}

TEST(Utf8, FindsTheFirstByteThatIsWrong) {
  EXPECT_EQ(first_invalid_utf8("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 plain text that is long"),
            34U);
  for (const char* bad : {"\x80", "\xc0\xaf", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80",
                          "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82", "\xff"}) {
    EXPECT_EQ(first_invalid_utf8(std::string("twelve bytes") + bad), 12U) << bad;
  }
}

}  // namespace
}  // namespace tessera
