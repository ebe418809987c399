// The torch-free programs, run as a user runs them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/launcher/temporary_folder.h"
#include "tests/process/command.h"
#include "tests/support/run_program.h"

namespace tessera {
namespace {

using test::ProgramResult;
using test::run_program;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

std::string config(const std::string& name) {
  return std::string(TESSERA_SOURCE_DIR) + "/configs/" + name + ".yaml";
}

ProgramResult tessera_program(const std::vector<std::string>& arguments,
                              const std::vector<std::string>& environment = {}) {
  return run_program("tessera", arguments, environment);
}

TEST(Front, HelpOfEveryCommandHasExamples) {
  for (const char* command :
       {"train", "plan", "parity", "preprocess", "inspect", "export", "launch"}) {
    const ProgramResult result = tessera_program({command, "--help"});
    EXPECT_EQ(result.code, 0) << command;
    EXPECT_THAT(result.output, HasSubstr("Example")) << command;
    EXPECT_EQ(result.errors, "") << command;
  }
  EXPECT_THAT(tessera_program({"--help"}).output, HasSubstr("Example"));
  EXPECT_THAT(run_program("msrun", {"--help"}).output, HasSubstr("Example"));
  EXPECT_THAT(run_program("run_mindformer.py", {"--help"}).output, HasSubstr("Example"));
}

TEST(Front, VersionNamesBoth) {
  const ProgramResult result = tessera_program({"--version"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.output, MatchesRegex("tessera [0-9.]+ \\(libtorch [0-9.+a-z]+\\)\n"));
}

TEST(Front, WrongFlagsAreCodeTwoInOneLine) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"trian"},
      {"train"},
      {"plan", "--config", config("fsdp")},
      {"plan", "--config", config("fsdp"), "--ranks", "0"},
      {"plan", "--config", config("fsdp"), "--ranks", "eight"},
      {"train", "--config", config("fsdp"), "--ranks", "-1"},
      {"train", "--config", config("fsdp"), "--rank", "8"},
      {"parity", "--config", config("fsdp"), "--ranks", "8", "--dtype", "int8"},
      {"inspect", "/no/such/prefix"},
      {"preprocess", "--input", "/no/such/file", "--output", "/tmp/x"},
      {"export", "--checkpoint", "a"},
      {"train", "--config=", "--ranks", "8"},
      {"train", "--config", "", "--ranks", "8"},
      {"train", "--config", config("fsdp"), "--trace=", "--ranks=8"},
      {"train", "--config", config("fsdp"), "--set=", "--ranks=8"},
      {"train", "--config", config("fsdp"), "--set", "--ranks=8"},
      {"plan", "--config", config("fsdp"), "--ranks=", "--json"},
      {"plan", "--config", config("fsdp"), "--ranks=8", "--svg=", "--json"},
      {"parity", "--config", config("fsdp"), "--ranks=8", "--plant=", "--json"},
      {"preprocess", "--input=", "--output=/tmp/x"},
      {"preprocess", "--input", "/dev/null", "--output=", "--append-eod"},
      {"export", "--checkpoint=", "--output=x"},
      {"inspect", ""},
      {"plan", "--config", "~nobody/x.yaml", "--ranks=8"},
      {"plan", "--config", "$TESSERA_TEST_UNSET/x.yaml", "--ranks=8"},
  };
  for (const auto& arguments : wrong) {
    const ProgramResult result = tessera_program(arguments);
    EXPECT_EQ(result.code, 2) << testing::PrintToString(arguments) << result.errors;
    EXPECT_THAT(result.errors, MatchesRegex("error: [^\n]+\n"))
        << testing::PrintToString(arguments);
    EXPECT_EQ(result.output, "");
  }
}

TEST(Front, ARankThatIsNoNumberIsToldByName) {
  for (const char* program : {"tessera", "tessera-engine"}) {
    const ProgramResult result =
        run_program(program, {"train", "--config", config("fsdp")}, {"RANK=x", "WORLD_SIZE=2"});
    EXPECT_EQ(result.code, 2) << program << result.errors;
    EXPECT_THAT(result.errors, HasSubstr("RANK=x must be a number")) << program;
  }
}

TEST(Front, RanksOfAStepOfOneAreThreads) {
  for (const char* rank : {"SLURM_PROCID", "OMPI_COMM_WORLD_RANK"}) {
    const ProgramResult result =
        run_program("tessera",
                    {"train", "--config", config("tp"), "--ranks", "6", "--set",
                     "parallelism.tensor_parallel=4"},
                    {std::string(rank) + "=0", "SLURM_STEP_ID=0", "SLURM_NTASKS=1",
                     "SLURM_LOCALID=0", "OMPI_COMM_WORLD_SIZE=1", "OMPI_COMM_WORLD_LOCAL_RANK=0"});
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.errors, HasSubstr("6 ranks"));
  }
}

TEST(Front, WhatWasMeantIsSuggested) {
  EXPECT_THAT(tessera_program({"trian", "--config", config("fsdp")}).errors,
              HasSubstr("trian is no command; did you mean train?"));
  EXPECT_THAT(tessera_program({"plan", "--config", config("fsdp"), "--rank", "8"}).errors,
              HasSubstr("--rank: there is no such flag; did you mean --ranks?"));
  EXPECT_THAT(tessera_program({"train", "--conifg=" + config("fsdp")}).errors,
              HasSubstr("did you mean --config?"));
  EXPECT_THAT(run_program("msrun", {"--worker_nun=8", "run_mindformer.py"}).errors,
              HasSubstr("did you mean --worker_num?"));
}

TEST(Front, AMissingFileIsOneError) {
  const std::vector<std::string> arguments = {"--config", "/no/such/file.yaml"};
  const auto errors = [&](const std::string& program, std::vector<std::string> before) {
    before.insert(before.end(), arguments.begin(), arguments.end());
    return run_program(program, before).errors;
  };
  const std::string expected =
      "error: one error in /no/such/file.yaml\n"
      "/no/such/file.yaml: cannot be read: No such file or directory\n";
  EXPECT_EQ(errors("tessera", {"train"}), expected);
  EXPECT_EQ(errors("tessera", {"plan", "--ranks", "8"}), expected);
  EXPECT_EQ(errors("msrun", {"--worker_num=8", "run_mindformer.py"}), expected);
  EXPECT_EQ(errors("run_mindformer.py", {}), expected);
}

TEST(Front, PlanOfTheSameFileAsTextAndJson) {
  const ProgramResult text = tessera_program({"plan", "--config", config("hsdp"), "--ranks", "16"});
  EXPECT_EQ(text.code, 0) << text.errors;
  EXPECT_THAT(text.output, HasSubstr("16 ranks = dp_replicate 2 x dp_shard 8"));
  const ProgramResult json =
      tessera_program({"plan", "--config", config("hsdp"), "--ranks", "16", "--json"});
  EXPECT_EQ(json.code, 0);
  EXPECT_EQ(nlohmann::json::parse(json.output)["layout"]["dp_replicate"], 2);
}

TEST(Front, ThePipelineIsDrawn) {
  TemporaryFolder folder;
  const ProgramResult drawn = tessera_program(
      {"plan", "--config", config("pp_list"), "--ranks", "8", "--svg", folder / "p.svg"});
  EXPECT_EQ(drawn.code, 0) << drawn.errors;
  EXPECT_THAT(read_file(folder / "p.svg"), HasSubstr("<svg"));
  const ProgramResult none = tessera_program(
      {"plan", "--config", config("fsdp"), "--ranks", "8", "--svg", folder / "q.svg"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.errors, HasSubstr("no pipeline to draw"));
}

TEST(Front, AllErrorsOfAFileAtOnceAndOnce) {
  const ProgramResult result =
      tessera_program({"plan", "--config", config("tp"), "--ranks", "6", "--set",
                       "training.global_batchsize=4", "--set", "optimizer.type=Adagrad", "--set",
                       "model.num_attention_heads=7", "--set", "parallelism.tensor_parallel=4"});
  EXPECT_EQ(result.code, 2);
  for (const char* text : {"global_batchsize", "did you mean", "Adagrad", "num_attention_heads",
                           "tensor_parallel", "6 ranks"}) {
    EXPECT_THAT(result.errors, HasSubstr(text));
  }
  EXPECT_EQ(result.output, "");
}

TEST(Front, TheSameVerdictEverywhere) {
  const std::vector<std::string> wrong = {"--set", "parallelism.data_parallel_shard=3"};
  const auto verdict = [&](std::vector<std::string> arguments, const std::string& program) {
    arguments.insert(arguments.end(), wrong.begin(), wrong.end());
    const ProgramResult result = run_program(program, arguments);
    EXPECT_EQ(result.code, 2) << program;
    const size_t line = result.errors.find("parallelism.data_parallel_shard = 3");
    EXPECT_NE(line, std::string::npos) << result.errors;
    return result.errors.substr(line, result.errors.find('\n', line) - line);
  };
  const std::string file = config("fsdp");
  const std::string plan = verdict({"plan", "--config", file, "--ranks", "8"}, "tessera");
  EXPECT_EQ(verdict({"train", "--config", file, "--ranks", "8"}, "tessera"), plan);
  EXPECT_EQ(verdict({"train", "--config", file, "--ranks", "8", "--dry-run"}, "tessera"), plan);
  EXPECT_EQ(verdict({"parity", "--config", file, "--ranks", "8"}, "tessera"), plan);
  EXPECT_EQ(
      verdict({"--worker_num=8", "--join=True", "run_mindformer.py", "--config", file}, "msrun"),
      plan);
}

TEST(Front, AsAWorkerTheWorldComesFromTheLauncherAndOneRankSpeaks) {
  const std::vector<std::string> arguments = {"train", "--config", config("tp"), "--set",
                                              "parallelism.tensor_parallel=4"};
  const auto as_rank = [&](const std::string& rank) {
    return tessera_program(arguments, {"RANK=" + rank, "WORLD_SIZE=6"});
  };
  EXPECT_EQ(as_rank("0").code, 2);
  EXPECT_THAT(as_rank("0").errors, HasSubstr("6 ranks"));
  EXPECT_EQ(as_rank("1").code, 2);
  EXPECT_THAT(as_rank("1").errors, Not(HasSubstr("tensor_parallel")));
  const ProgramResult both = tessera_program({"train", "--config", config("tp"), "--ranks", "6"},
                                             {"RANK=0", "WORLD_SIZE=6"});
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.errors, HasSubstr("leave --ranks out"));
  const ProgramResult parity =
      tessera_program({"parity", "--config", config("tp")}, {"RANK=0", "WORLD_SIZE=6"});
  EXPECT_EQ(parity.code, 2);
  EXPECT_THAT(parity.errors, HasSubstr("start it once, with --ranks"));
}

TEST(Front, PreprocessReadsPipesAndTellsWhatItSkipped) {
  TemporaryFolder folder;
  const std::string tessera = programs() + "/tessera";
  write_file(folder / "a",
             "{\"text\": \"one\"}\n[]\n{\"text\": \"\\ud800\"}\n{\"text\": \"two\"}\n");
  const CommandResult stopped =
      run_command(tessera + " preprocess --input - --output out/t < a", folder.path().string());
  EXPECT_EQ(stopped.code, 2);
  EXPECT_THAT(stopped.err, HasSubstr("standard input: JSON lines\n"));
  EXPECT_THAT(stopped.err, HasSubstr("error: standard input:2: no JSON object"));
  EXPECT_EQ(run_command("ls out", folder.path().string()).out, "");
  const CommandResult skipped =
      run_command("mkfifo pipe; gzip -c a > pipe & " + tessera +
                      " preprocess --input - pipe --output out/t --on-error skip < a",
                  folder.path().string());
  EXPECT_EQ(skipped.code, 0) << skipped.err;
  EXPECT_THAT(skipped.err, HasSubstr("pipe: JSON lines in gzip\n"));
  EXPECT_THAT(skipped.out, HasSubstr("4 documents, 12 tokens"));
  EXPECT_THAT(skipped.out, HasSubstr("\n4 documents skipped, all named in out/t.skipped.jsonl"));
  EXPECT_THAT(skipped.out, HasSubstr("\n  pipe:3: field \"text\" holds a lone surrogate"));
  EXPECT_EQ(run_command("wc -l < out/t.skipped.jsonl", folder.path().string()).out, "4\n");
}

TEST(Front, PreprocessInspectAndDryRun) {
  TemporaryFolder folder;
  write_file(folder / "text", std::string(20000, 'x'));
  const ProgramResult made = tessera_program(
      {"preprocess", "--input", folder / "text", "--output", folder / "tokens", "--append-eod"});
  EXPECT_EQ(made.code, 0) << made.errors;
  EXPECT_THAT(made.output, HasSubstr("1 documents, 20001 tokens"));
  const ProgramResult seen =
      tessera_program({"inspect", folder / "tokens.idx", "--verify", "--eod", "256"});
  EXPECT_EQ(seen.code, 0) << seen.errors;
  EXPECT_THAT(seen.output, HasSubstr("20001"));
  const ProgramResult uncounted = tessera_program({"inspect", folder / "tokens", "--eod", "256"});
  EXPECT_EQ(uncounted.code, 2);
  EXPECT_THAT(uncounted.errors, HasSubstr("--eod: counts what --verify reads"));
  const ProgramResult dry =
      tessera_program({"train", "--config", config("fsdp"), "--ranks", "8", "--dry-run", "--set",
                       "train_dataset.dataloader.config.data_path=[" + folder / "tokens" + "]"});
  EXPECT_EQ(dry.code, 0) << dry.errors;
  EXPECT_THAT(dry.output, HasSubstr("8 ranks"));
  EXPECT_THAT(dry.output, HasSubstr("samples"));
}

TEST(Front, InspectTellsOneWeightFileAndRefusesADamagedOne) {
  TemporaryFolder folder;
  const std::string header =
      R"({"__metadata__":{"format":"pt"},)"
      R"("model.norm.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("bias":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]}})";
  const std::string length = {static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0};
  const std::string path = folder / "model.safetensors";
  write_file(path, length + header + std::string(32, '\0'));
  const ProgramResult seen = tessera_program({"inspect", path, "--verify"});
  EXPECT_EQ(seen.code, 0) << seen.errors;
  EXPECT_THAT(seen.output, HasSubstr("elements: 10 in 2 tensors"));
  EXPECT_THAT(seen.output, ContainsRegex("  model.norm.weight +\\[2, 3\\] F32, 24 bytes\n"));
  EXPECT_THAT(seen.output, ContainsRegex("  bias +\\[4\\] BF16, 8 bytes\n"));
  EXPECT_THAT(seen.output, HasSubstr("format pt"));

  for (const size_t bytes : {4u, 60u, 200u}) {  // data, header cut short; no header
    write_file(path,
               (length + header + std::string(32, '\0')).substr(0, header.size() + 40 - bytes));
    const ProgramResult damaged = tessera_program({"inspect", path});
    EXPECT_EQ(damaged.code, 4);
    EXPECT_THAT(damaged.errors, MatchesRegex("error: [^\n]*model.safetensors[^\n]*\n"));
    EXPECT_EQ(damaged.output, "");
  }
  EXPECT_EQ(tessera_program({"inspect", path, "--eod", "3"}).code, 2);
}

TEST(Front, InspectSaysWhatIsNotThere) {
  TemporaryFolder folder;
  write_file(folder / "config.json", "{}");
  write_file(folder / "half.bin", "12");
  const auto errors = [&](const std::string& name) {
    const ProgramResult result = tessera_program({"inspect", folder / name});
    EXPECT_EQ(result.code, 2) << name;
    return result.errors;
  };
  EXPECT_THAT(errors("none"), HasSubstr("none: no such file or folder"));
  EXPECT_THAT(errors("none.safetensors"), HasSubstr("no such file or folder"));
  EXPECT_THAT(errors("config.json"), HasSubstr("neither a token file (.bin, .idx)"));
  EXPECT_THAT(errors("half.idx"), HasSubstr("are not both there"));
}

TEST(Front, MissingDataStopARunButNotAPlan) {
  const std::vector<std::string> data = {
      "--set", "train_dataset.dataloader.config.data_path=[/no/such/tokens]"};
  std::vector<std::string> plan = {"plan", "--config", config("fsdp"), "--ranks", "8"};
  plan.insert(plan.end(), data.begin(), data.end());
  const ProgramResult planned = tessera_program(plan);
  EXPECT_EQ(planned.code, 0) << planned.errors;
  EXPECT_THAT(planned.output, HasSubstr("/no/such/tokens"));
  std::vector<std::string> train = {"train", "--config", config("fsdp"), "--ranks", "8"};
  train.insert(train.end(), data.begin(), data.end());
  const ProgramResult trained = tessera_program(train);
  EXPECT_EQ(trained.code, 2);
  EXPECT_THAT(trained.errors, HasSubstr("/no/such/tokens"));
}

TEST(Front, FewerSamplesThanOneStepStopARunBeforeItStarts) {
  for (const std::string& last : {std::string(), std::string("--dry-run")}) {
    std::vector<std::string> train = {"train",
                                      "--config",
                                      config("fsdp"),
                                      "--ranks",
                                      "8",
                                      "--set",
                                      "training.global_batch_size=8000000",
                                      "--set",
                                      "train_dataset.dataloader.config.data_path=[" +
                                          std::string(TESSERA_SOURCE_DIR) +
                                          "/tests/cases/llama_sgd64/data/train]"};
    if (!last.empty()) train.push_back(last);
    const ProgramResult result = tessera_program(train);
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.errors, HasSubstr("data_path"));
    EXPECT_THAT(result.errors, HasSubstr("one step needs 8000000"));
  }
}

}  // namespace
}  // namespace tessera
