// Generation as a user runs it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/launcher/temporary_folder.h"
#include "tests/support/case_path.h"
#include "tests/support/run_program.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using test::run_program;
using testing::HasSubstr;

// A small model with the tokenizer that belongs to it.
class Generate : public testing::Test {
 protected:
  void SetUp() override {
    const fs::path run = test::case_path("sft_mask64");
    for (const char* part : {"model", "tokenizer"}) {
      fs::copy(run / part, folder_.path(),
               fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    }
  }
  std::string model() const { return folder_.path().string(); }

  TemporaryFolder folder_;
};

TEST_F(Generate, ShowsOneAnswerAndWritesManyAsLines) {
  const auto one = run_program("tessera", {"generate", "--model", model(), "--prompt", "hello",
                                           "--dtype", "float64", "--max-new-tokens", "6"});
  ASSERT_EQ(one.code, 0) << one.errors;
  std::ofstream(folder_.path() / "p.jsonl") << "{\"prompt\": \"hello\"}\n{\"prompt\": \"\"}\n";
  const auto two = run_program(
      "tessera", {"generate", "--model", model(), "--input", (folder_.path() / "p.jsonl").string(),
                  "--dtype", "float64", "--max-new-tokens", "6", "--ranks", "2", "--set",
                  "parallelism.tensor_parallel=2"});
  ASSERT_EQ(two.code, 0) << two.errors;
  std::istringstream lines(two.output);
  std::string first, second;
  std::getline(lines, first);
  std::getline(lines, second);
  const auto answer = nlohmann::json::parse(first);
  EXPECT_EQ(answer.at("text").get<std::string>() + "\n", one.output);
  EXPECT_EQ(answer.at("ids").size(), 6);
  EXPECT_EQ(answer.at("end"), "length");
  EXPECT_EQ(nlohmann::json::parse(second).at("error"), "the prompt is empty");
}

TEST_F(Generate, AFileThatPredictsIsAnsweredInTheReferencesForm) {
  const fs::path output = folder_.path() / "answers.jsonl", file = folder_.path() / "p.yaml";
  std::ofstream(file) << "run_mode: predict\ncheckpoint: {load_path: '" << model()
                      << "'}\ncontext: {device_target: CPU}\ninference:\n  input_data: "
                         "[hello, {instruction: add, input: '1 2'}]\n  max_new_tokens: 4\n"
                         "  output: '"
                      << output.string() << "'\n";
  const auto run = run_program("tessera", {"train", "--config", file.string(), "--ranks", "2"});
  ASSERT_EQ(run.code, 0) << run.errors;
  std::ifstream lines(output);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(nlohmann::json::parse(line).at("generated_ids").size(), 5 + 4);
  std::getline(lines, line);
  EXPECT_EQ(nlohmann::json::parse(line).at("input"), "1 2");
  const auto plan = run_program("tessera", {"plan", "--config", file.string(), "--ranks", "2"});
  EXPECT_EQ(plan.code, 2);
  EXPECT_THAT(plan.errors, HasSubstr("predict trains nothing"));
}

TEST_F(Generate, WhatCannotBeIsCodeTwo) {
  struct Case {
    std::vector<std::string> arguments;
    std::string says;
  };
  const std::vector<Case> cases = {
      {{"--prompt", "x"}, "one of --model, --checkpoint and --config is needed"},
      {{"--model", "/nonexistent", "--prompt", "x"}, "no such folder"},
      {{"--model", model(), "--prompt", "x", "--top-p", "2"}, "must be a number, 0 to 1"},
      {{"--model", model(), "--prompt", "x", "--chat", "foo"}, "must be one of alpaca, chatml"},
      {{"--model", model(), "--prompt", "x", "--input", "y"}, "one of them"},
      {{"--model", model(), "--prompt", "x", "--ranks", "2", "--set",
        "parallelism.context_parallel=2"},
       "is not cut by context"},
      {{"--model", model(), "--prompt", "x", "--tokenizer", "/nonexistent"}, "/nonexistent"},
  };
  for (const Case& c : cases) {
    std::vector<std::string> arguments = {"generate"};
    arguments.insert(arguments.end(), c.arguments.begin(), c.arguments.end());
    const auto run = run_program("tessera", arguments);
    EXPECT_EQ(run.code, 2) << c.says << "\n" << run.errors;
    EXPECT_THAT(run.errors, HasSubstr(c.says));
  }
}

}  // namespace
}  // namespace tessera
