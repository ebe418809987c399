#include "tessera/generate/text_stream.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

// The text of bytes as it is shown, token by token, and at the end.
std::string shown(const std::string& bytes, const std::vector<std::string>& stops,
                  std::vector<std::string>& parts) {
  const auto tokenizer = make_byte_tokenizer();
  TextStream stream(*tokenizer, stops);
  std::vector<int32_t> ids;
  for (const char byte : bytes) {
    ids.push_back(static_cast<unsigned char>(byte));
    const bool ends = stream.update(ids);
    parts.push_back(stream.take());
    if (ends) break;
  }
  parts.push_back(stream.take_rest());
  std::string all;
  for (const std::string& part : parts) all += part;
  EXPECT_EQ(all, stream.text());
  return all;
}

TEST(TextStream, ShowsWholeCharacters) {
  std::vector<std::string> parts;
  EXPECT_EQ(shown("a\u00e9\u4e2d", {}, parts), "a\u00e9\u4e2d");
  EXPECT_EQ(parts, (std::vector<std::string>{"a", "", "\u00e9", "", "", "\u4e2d", ""}));
}

TEST(TextStream, WhatIsNoCharacterIsShownAtTheEnd) {
  std::vector<std::string> parts;
  EXPECT_EQ(shown("a\xc3", {}, parts), "a\uFFFD");
  EXPECT_EQ(parts, (std::vector<std::string>{"a", "", "\uFFFD"}));
}

TEST(TextStream, EndsInFrontOfAStopText) {
  std::vector<std::string> parts;
  EXPECT_EQ(shown("one\n\ntwo", {"\n\n", "xyz"}, parts), "one");
  EXPECT_EQ(parts, (std::vector<std::string>{"o", "n", "e", "", "", ""}));
}

TEST(TextStream, HoldsBackWhatMayBecomeAStopText) {
  std::vector<std::string> parts;
  EXPECT_EQ(shown("a<b", {"<|"}, parts), "a<b");
  EXPECT_EQ(parts, (std::vector<std::string>{"a", "", "<b", ""}));
  parts.clear();
  EXPECT_EQ(shown("a<", {"<|"}, parts), "a<");
}

}  // namespace
}  // namespace tessera
