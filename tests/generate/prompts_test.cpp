#include "tessera/generate/prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tessera/base/error.h"
#include "tessera/generate/answer_writer.h"
#include "tests/support/temp_dir.h"

namespace tessera {
namespace {

using testing::HasSubstr;

std::string file(const test::TempDir& dir, const std::string& name, const std::string& text) {
  std::ofstream(dir / name) << text;
  return (dir / name).string();
}

std::string refusal(const std::string& path) {
  try {
    read_prompts(path);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Prompts, LinesOfJsonAreRead) {
  const test::TempDir dir;
  const auto prompts = read_prompts(file(dir, "p.jsonl",
                                         "{\"prompt\": \"one\"}\n\n"
                                         "{\"instruction\": \"add\", \"input\": \"1 2\"}\n"
                                         "{\"messages\": [{\"role\": \"user\", \"content\": "
                                         "\"hi\"}]}\n{\"text\": \"t\"}\n"));
  ASSERT_EQ(prompts.size(), 4);
  EXPECT_EQ(prompts[0].text, "one");
  EXPECT_EQ(prompts[1].text, "add\n1 2");
  ASSERT_TRUE(prompts[1].record);
  EXPECT_EQ(prompts[2].messages.at(0).content, "hi");
  EXPECT_EQ(prompts[3].text, "t");
}

TEST(Prompts, AnyOtherFileHoldsATextALine) {
  const test::TempDir dir;
  const auto prompts = read_prompts(file(dir, "p.txt", "one\r\n\ntwo"));
  ASSERT_EQ(prompts.size(), 2);
  EXPECT_EQ(prompts[0].text, "one");
  EXPECT_EQ(prompts[1].text, "two");
}

TEST(Prompts, WhatIsNoPromptIsToldByItsLine) {
  const test::TempDir dir;
  const std::string path = file(dir, "p.jsonl", "{\"prompt\": \"one\"}\n[1]\n");
  EXPECT_EQ(refusal(path), path + ":2: no JSON object");
  EXPECT_THAT(refusal(file(dir, "k.jsonl", "{\"question\": 1}\n")),
              HasSubstr("k.jsonl:1: needs \"prompt\""));
  EXPECT_THAT(refusal(file(dir, "r.jsonl", "{\"messages\": [{\"role\": \"tool\"}]}\n")),
              HasSubstr("the role of a message must be"));
  EXPECT_THAT(refusal(file(dir, "u.txt", "a\xff\n")), HasSubstr("u.txt:1: is no UTF-8"));
  EXPECT_THAT(refusal(file(dir, "e.txt", "\n\n")), HasSubstr("holds no prompt"));
  EXPECT_THAT(refusal((dir / "absent.txt").string()), HasSubstr("cannot be read"));
}

TEST(Prompts, StopTokensAreThoseOfTheGenerationSettings) {
  const test::TempDir dir;
  file(dir, "config.json", "{\"eos_token_id\": 7}");
  EXPECT_EQ(stop_tokens_in(dir.path().string()), std::vector<int32_t>{7});
  file(dir, "generation_config.json", "{\"eos_token_id\": [3, 4]}");
  EXPECT_EQ(stop_tokens_in(dir.path().string()), (std::vector<int32_t>{3, 4}));
}

TEST(Prompts, AnswersOfRecordsAreThoseOfTheReference) {
  const Prompt prompt = prompt_of({"add", "1 2"});
  WrittenAnswer answer{0, {1, 2}, {3}, "\u00e9", "stop", ""};
  EXPECT_EQ(answer_line(prompt, answer),
            "{\"sample_idx\":0,\"generated_ids\":[1,2,3],\"generated_text\":\"\u00e9\","
            "\"instruction\":\"add\",\"input\":\"1 2\"}\n");
  answer.error = "too long";
  EXPECT_EQ(
      answer_line(prompt, answer),
      "{\"sample_idx\":0,\"error\":\"too long\",\"instruction\":\"add\",\"input\":\"1 2\"}\n");
}

}  // namespace
}  // namespace tessera
