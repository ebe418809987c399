#include "tessera/data/text/input_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/data/token_files.h"

namespace tessera {
namespace {

using test::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using std::string_view_literals::operator""sv;

// The format by its name, or the message of the refusal.
std::string recognised(std::string_view head, const std::string& name = "input",
                       bool whole = true) {
  std::string format;
  const std::string message = message_of<ConfigError>([&] {
    format = to_string(recognise({name, head, whole, "text"}));
  });
  return message.empty() ? format : message;
}

TEST(InputFormat, TheFirstLineMakesJsonLinesWhateverTheName) {
  for (const char* name : {"a.jsonl", "a.ndjson", "a.JSONL", "a.jsonl.1", "a.txt", "a", "a.csv"}) {
    EXPECT_EQ(recognised("{\"text\": \"a\"}\n{\"text\": \"b\"}\n", name), "JSON lines") << name;
  }
  EXPECT_EQ(recognised("\n \r\n{\"text\": \"a\"}"), "JSON lines");
  EXPECT_EQ(recognised("{\"text\": \"a\", \"v\": NaN}\r\n"), "JSON lines");
  // A line that is longer than what is looked at.
  EXPECT_EQ(recognised("{\"text\": \"a long", "a", false), "JSON lines");
  // A first line that is broken.
  EXPECT_EQ(recognised("{\"text\": \"a\n{\"text\": \"b\"}\n{\"text\": \"b\"}\n"), "JSON lines");
  EXPECT_EQ(recognised("[1]\n{\"text\": \"b\"}\n"), "JSON lines");
  EXPECT_EQ(recognised("{\"text\": \"a\n"), "JSON lines");
  // Here the name decides: a file of JSON lines without a right one is no text.
  EXPECT_EQ(recognised("broken\n", "d/a.jsonl"), "JSON lines");
  EXPECT_EQ(recognised("broken\n", "a.JSON.gz"), "JSON lines");
  EXPECT_EQ(recognised("broken\n", "a.json.d/text"), "text");
}

TEST(InputFormat, TextIsText) {
  for (const char* text :
       {"", "\n", "Once upon a time, there was\n", "na\xc3\xafve\ttext\f\x1b[1m", "{ brace\n", "{",
        "[1] A reference\n[2] Another\n", "[note] Text\n", "ORCHIDS, and more\n", "BZh\n",
        "Yes, no\nWell, then, so\n", "int main() {\n", "latin \xe9t\xe9 text\n"}) {
    EXPECT_EQ(recognised(text), "text") << text;
  }
  EXPECT_EQ(recognised("a prefix of many bytes that ends in \xc3", "a", false), "text");
}

TEST(InputFormat, WhatIsNoTextIsRefusedWithWhatToDo) {
  const auto expect = [](std::string_view head, const std::string& what, const std::string& instead,
                         const std::string& name = "input") {
    EXPECT_THAT(recognised(head, name),
                AllOf(HasSubstr(name + ": this is " + what), HasSubstr(instead)));
  };
  expect("PAR1\x15\x04\x15\0"sv, "a Parquet file", "pandas.read_parquet");
  expect("ARROW1\0\0"sv, "an Arrow file", "pandas.read_feather");
  expect("ORC\x0a\x0b\x01\0"sv, "an ORC file", "pandas.read_orc");
  expect("PK\x03\x04\x14\0"sv, "a zip archive", "unpack it");
  expect(std::string(257, 'a') + "ustar", "a tar archive", "unpack it");
  expect("\x10\0\0\0\0\0\0\0{\"a\":{}}"sv, "a safetensors file", "weights");
  expect("\x93NUMPY\x01\0"sv, "a NumPy array", "give text");
  expect("MMIDIDX\0\0\x01"sv, "the index of a token file", "data_path");
  expect("%PDF-1.7\n", "a PDF", "extract its text");
  expect("\x04\x22\x4d\x18\x64\x40"sv, "lz4 data", "lz4 -dc input |");
  expect("\xff\xfeh\0i\0"sv, "text in UTF-16", "iconv -f UTF-16");
  expect("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a pointer file of Git LFS",
         "git lfs pull");
  expect("h\0i\0"sv, "binary data", "--format text");
  expect("\x01\x02\x03\x04 abc", "binary data", "--format text");
}

TEST(InputFormat, TablesAndOtherJsonAreRefusedWithWhatToDo) {
  const std::string jq_array = "jq -c '.[]' a.json | tessera preprocess --input -";
  const std::string jq_objects = "jq -c . a.json | tessera preprocess --input -";
  for (const char* array : {"[{\"text\": \"a\"}]", "[\n{\"text\": \"a\"},\n{\"text\": \"b\"}\n]\n",
                            "[\n  {\n    \"text\": \"a\"\n  }\n]", "[\"a\",\n\"b\"]", "[]"}) {
    EXPECT_THAT(recognised(array, "a.json"),
                AllOf(HasSubstr("this is one JSON array"), HasSubstr(jq_array)))
        << array;
  }
  EXPECT_THAT(recognised("[{\"text\": \"cut", "a.json", false), HasSubstr("one JSON array"));
  for (const char* object : {"{\n  \"text\": \"a\"\n}\n", "{\"text\":\n\"a\"}",
                             "{\n\"text\": \"a\"\n}\n{\n\"text\": \"b\"\n}\n"}) {
    EXPECT_THAT(recognised(object, "a.json"),
                AllOf(HasSubstr("JSON objects that go over several lines"), HasSubstr(jq_objects)))
        << object;
  }
  EXPECT_THAT(recognised("id,text\n1,\"a, b\"\n", "x"),
              AllOf(HasSubstr("a table with commas"), HasSubstr("csv.DictReader(sys.stdin)")));
  EXPECT_THAT(recognised("a,b,c\n1,2,3\n", "x"), HasSubstr("a table with commas"));
  EXPECT_THAT(recognised("anything at all\n", "x.csv.gz"), HasSubstr("a table with commas"));
  EXPECT_THAT(recognised("id\ttext\r\n1\ta b\r\n", "x"),
              AllOf(HasSubstr("a table with tabs"), HasSubstr("delimiter=\"\\t\"")));
  EXPECT_THAT(recognised("anything at all\n", "x.TSV"), HasSubstr("a table with tabs"));
}

}  // namespace
}  // namespace tessera
