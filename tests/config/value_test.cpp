#include "tessera/config/yaml/value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Value parse(const std::string& text, std::vector<Issue>& issues) {
  return parse_document(text, "x.yaml", issues);
}

ScalarType type_of(const std::string& text) {
  Value value;
  value.text = text;
  return value.scalar_type();
}

TEST(Value, ScalarTypesAreThoseOfYaml) {
  for (const char* text : {"", "~", "null", "Null", "NULL"}) {
    EXPECT_EQ(type_of(text), ScalarType::kNull) << text;
  }
  for (const char* text : {"true", "True", "FALSE", "yes", "Off"}) {
    EXPECT_EQ(type_of(text), ScalarType::kBool) << text;
  }
  for (const char* text : {"0", "-12", "+3", "1_000", "0x1F", "0b101"}) {
    EXPECT_EQ(type_of(text), ScalarType::kInt) << text;
  }
  for (const char* text : {"1.5", "1.e-8", "1e-8", "-1E+5", ".5", "5.", ".inf", "-.inf", ".nan"}) {
    EXPECT_EQ(type_of(text), ScalarType::kFloat) << text;
  }
  for (const char* text : {"None", "1f1b", "auto", "1,0,0", "0-1", "007", "1e", "e5", ".", "-",
                           "1.2.3", "_1", "0x", "data/train", "inf", "nan", "1:30"}) {
    EXPECT_EQ(type_of(text), ScalarType::kString) << text;
  }
}

TEST(Value, NumbersAreRead) {
  EXPECT_EQ(parse_int("1_000"), 1000);
  EXPECT_EQ(parse_int("-0x10"), -16);
  EXPECT_EQ(parse_int("9223372036854775808"), std::nullopt);
  EXPECT_EQ(parse_float("1e-8"), 1e-8);
  EXPECT_EQ(parse_float("+1.e3"), 1000.0);
  EXPECT_EQ(parse_float("3"), 3.0);
  EXPECT_EQ(parse_float("9223372036854775808"), 9223372036854775808.0);
  EXPECT_TRUE(std::isinf(*parse_float("1e999")));
  EXPECT_EQ(parse_float("abc"), std::nullopt);
}

TEST(Value, QuotesMakeStrings) {
  std::vector<Issue> issues;
  const Value root = parse("a: '1'\nb: 1\nc: \"true\"\nd: |\n  12\n", issues);
  EXPECT_EQ(type_name_of(*root.find("a")), "str");
  EXPECT_EQ(type_name_of(*root.find("b")), "int");
  EXPECT_EQ(type_name_of(*root.find("c")), "str");
  EXPECT_EQ(type_name_of(*root.find("d")), "str");
  EXPECT_TRUE(issues.empty());
}

TEST(Value, LinesAreRemembered) {
  std::vector<Issue> issues;
  const Value root = parse("# first\na:\n  b: 1\n  c: [1,\n      2]\n", issues);
  EXPECT_EQ(root.find("a")->find("b")->source.line, 3);
  EXPECT_EQ(root.find("a")->find("c")->items[1].source.line, 5);
  EXPECT_EQ(root.find("a")->find("c")->source.file, "x.yaml");
}

TEST(Value, DuplicateKeysAreNamedWithBothLines) {
  std::vector<Issue> issues;
  const Value root = parse("a:\n  b: 1\n  b: 2\n", issues);
  ASSERT_EQ(issues.size(), 1u);
  EXPECT_EQ(format_issue(issues[0]), "x.yaml:3: a.b = 2: duplicate key (also on line 2)");
  EXPECT_EQ(root.find("a")->find("b")->text, "1");
}

TEST(Value, AliasesAndMergeKeysAreExpanded) {
  std::vector<Issue> issues;
  const Value root = parse("base: &b {x: 1, y: 2}\nuse:\n  <<: *b\n  y: 3\ncopy: *b\n", issues);
  EXPECT_TRUE(issues.empty());
  EXPECT_EQ(root.find("use")->find("x")->text, "1");
  EXPECT_EQ(root.find("use")->find("y")->text, "3");
  EXPECT_EQ(root.find("copy")->find("y")->text, "2");
}

TEST(Value, SyntaxErrorsHaveTheirLine) {
  std::vector<Issue> issues;
  parse("a: 1\nb: [1, 2\n", issues);
  ASSERT_EQ(issues.size(), 1u);
  EXPECT_THAT(format_issue(issues[0]), HasSubstr("not valid YAML"));
  EXPECT_GT(issues[0].source.line, 0);
}

TEST(Value, ATabThatIndentsIsNamed) {
  std::vector<Issue> issues;
  parse("a: 1 # \t\n\nb:\n\tc: 1\n", issues);
  ASSERT_EQ(issues.size(), 1u);
  EXPECT_THAT(issues[0].rule, HasSubstr("a tab indents line 4"));
  issues.clear();
  parse("a: 1\t\nb: [1, 2\n", issues);
  ASSERT_EQ(issues.size(), 1u);
  EXPECT_THAT(issues[0].rule, Not(HasSubstr("a tab")));
}

TEST(Value, AQuoteThatIsNotClosedIsNamed) {
  for (const char* text :
       {"a: 1\nb: \"two\n", "a: 1\nb: 'two\n", "a: 1\nb: \"two\\\"\nc: 3\n", "a: 1\nb: 'it''s\n"}) {
    std::vector<Issue> issues;
    parse(text, issues);
    ASSERT_EQ(issues.size(), 1u) << text;
    EXPECT_THAT(issues[0].rule, HasSubstr("a quote that is not closed")) << text;
    EXPECT_EQ(issues[0].source.line, 2) << text;
  }
  std::vector<Issue> issues;
  parse("é: 'ü'\n\"k\": \"a\\\\\"\nb: 'it''s'\nc: ''''\nd: \"\\\"\"\ne: &x 'y'\nf: ''", issues);
  EXPECT_TRUE(issues.empty()) << format_issues(issues);
}

TEST(Value, TagsOfOtherLanguagesAreRefused) {
  std::vector<Issue> issues;
  parse("a: !!int 2\nb: !!str 2\nc: ! 2\nd: !!map {x: !!seq [1]}\n", issues);
  EXPECT_TRUE(issues.empty());
  parse("a: 1\nb: {c: !!python/object:os.system 2}\n", issues);
  ASSERT_EQ(issues.size(), 1u);
  EXPECT_EQ(format_issue(issues[0]),
            "x.yaml:2: b.c = tag:yaml.org,2002:python/object:os.system: is no tag that is known "
            "here");
}

TEST(Value, DocumentsThatExplodeAreStopped) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before + ", " + before +
            ", " + before + ", " + before + "]\n";
  }
  std::vector<Issue> issues;
  parse(bomb, issues);
  ASSERT_EQ(issues.size(), 1u);
  EXPECT_THAT(issues[0].rule, HasSubstr("too deep or too large"));

  issues.clear();
  parse("a: " + std::string(5000, '[') + std::string(5000, ']'), issues);
  ASSERT_EQ(issues.size(), 1u);
  EXPECT_THAT(issues[0].rule, HasSubstr("too deep or too large"));
}

TEST(Value, JsonIsYaml) {
  std::vector<Issue> issues;
  const Value root = parse(R"({"a":{"b":1e-06,"c":null,"d":["x"]},"e":true})", issues);
  EXPECT_TRUE(issues.empty());
  EXPECT_EQ(parse_float(root.find("a")->find("b")->text), 1e-6);
  EXPECT_TRUE(root.find("a")->find("c")->is_null());
  EXPECT_EQ(root.find("a")->find("d")->items[0].text, "x");
}

TEST(Value, DisplayIsOneShortLine) {
  std::vector<Issue> issues;
  const Value root =
      parse("a: {b: [1, 'two'], c: null}\nlong: \"" + std::string(500, 'x') + "\"", issues);
  EXPECT_EQ(display(*root.find("a")), "{b: [1, \"two\"], c: null}");
  EXPECT_LT(display(*root.find("long")).size(), 70u);
}

}  // namespace
}  // namespace tessera
