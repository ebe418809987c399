// Trainings by processes: the real launcher, the real engine, Gloo between the workers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "process_training.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST_F(ProcessTraining, FourWorkersEqualFourThreads) {
  const CommandResult result = sh(msrun("--log_dir=logs", "out"));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("step:[    1/    3]"), HasSubstr("step:[    3/    3]")));
  expect_equal_to_threads("out");
}

TEST_F(ProcessTraining, EightWorkersEqualEightThreads) {
  const CommandResult result = sh(msrun("--log_dir=logs", "out", 3, 8));
  ASSERT_EQ(result.code, 0) << result.err;
  expect_equal_to_threads("out", 8);
}

TEST_F(ProcessTraining, TwoNodesEqualFourThreads) {
  const CommandResult result =
      sh(msrun("--local_worker_num=2 --node_rank=1 --log_dir=n1", "out") + " & " +
         msrun("--local_worker_num=2 --node_rank=0 --log_dir=n0", "out") +
         "; a=$?; wait %1 && exit $a");
  ASSERT_EQ(result.code, 0) << result.err;
  expect_equal_to_threads("out");
}

TEST_F(ProcessTraining, VariablesOfTorchrunSlurmAndOpenMpi) {
  const std::string port = "MASTER_PORT=" + port_;
  CommandResult result =
      as_workers("RANK=$r WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 " + port, "torchrun");
  ASSERT_EQ(result.code, 0) << result.err;
  expect_equal_to_threads("torchrun");
  result = as_workers(
      "SLURM_PROCID=$r SLURM_LOCALID=$r SLURM_STEP_ID=0 SLURM_JOB_ID=1 "
      "SLURM_NTASKS=4 SLURM_STEP_NODELIST=localhost " +
          port,
      "slurm");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(steps_of("slurm").size(), 3u);
  result = as_workers(
      "OMPI_COMM_WORLD_RANK=$r OMPI_COMM_WORLD_SIZE=4 "
      "OMPI_COMM_WORLD_LOCAL_RANK=$r OMPI_COMM_WORLD_LOCAL_SIZE=4 " +
          port,
      "mpi");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(steps_of("mpi").size(), 3u);
}

// Files of a run do not take the numbers of streams that its caller has closed.
TEST_F(ProcessTraining, ClosedStreamsStayOutOfTheFiles) {
  const CommandResult result =
      sh("tessera train --ranks 2" + arguments("out", 2, 2) + " <&- >&- 2>&-");
  ASSERT_EQ(result.code, 0);
  std::istringstream lines(read_file(folder_ / "out/metrics.jsonl"));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_TRUE(nlohmann::json::accept(line)) << line;
  }
  EXPECT_EQ(count, 2);
}

TEST_F(ProcessTraining, AWorkerThatWaitsForItsWorldEndsAtOnce) {
  const CommandResult result = sh("RANK=1 WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port_ +
                                  " timeout -k 600 10 tessera train" + arguments("out"));
  EXPECT_EQ(result.code, 124) << result.err;  // 137: it had to be killed
}

TEST_F(ProcessTraining, AResultThatCannotBeWrittenIsAnError) {
  write_file(folder_ / "text.txt", "text");
  for (const std::string& command :
       {"tessera plan --ranks 2" + arguments("out", 2, 2),
        "tessera plan --json --ranks 2" + arguments("out", 2, 2),
        "tessera train --dry-run --ranks 2" + arguments("out", 2, 2),
        "tessera parity --ranks 2 --steps 1" + arguments("out", 2, 2),
        std::string("tessera preprocess --input text.txt --output tokens"),
        std::string("tessera inspect tokens")}) {
    const CommandResult result = sh(command + " >/dev/full");
    EXPECT_EQ(result.code, 2) << command;
    EXPECT_THAT(result.err, HasSubstr("standard output: cannot be written: No space left"))
        << command;
  }
}

TEST_F(ProcessTraining, AWorkingDirectoryThatIsGoneIsNamed) {
  const CommandResult result = sh("mkdir gone; cd gone; rmdir ../gone; tessera train --ranks 2" +
                                  arguments("'" + std::string(folder_ / "out") + "'", 2, 2));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("the working directory is not there any more"));
}

// The program itself finds what is injected, says where and exits with 6.
TEST_F(ProcessTraining, ParityNamesAnInjectedFault) {
  const std::string parity = "tessera parity --ranks 2 --steps 1 --config '" +
                             (test::case_path("llama_sgd64") / "config.yaml").string() +
                             "' --set parallelism.tensor_parallel=2 --set "
                             "training.local_batch_size=2 --plant ";
  const CommandResult found = sh(parity + "'slice_gradient:layer 2'");
  EXPECT_EQ(found.code, 6) << found.err;
  EXPECT_THAT(found.out, HasSubstr("the first: gradient of model.layers.2.input_layernorm.weight"));
  const CommandResult refused = sh(parity + "swap_micro_batches");
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("it needs a pipeline with two micro-batches"));
}

// Starts a long run, and does `then` after its second step; $p is the launcher.
std::string after_two_steps(const std::string& run, const std::string& then) {
  return run +
         " & p=$!; for i in $(seq 6000); do [ \"$(grep -cs loss out/metrics.jsonl)\" -ge 2 ] "
         "2>/dev/null && break; sleep 0.1; done; " +
         then + "; wait $p";
}

// Sends a signal to the worker of this rank; $p is its launcher.
std::string signal_to_rank(const std::string& signal, int rank) {
  return "for c in $(cat /proc/$p/task/$p/children); do tr '\\0' '\\n' </proc/$c/environ | "
         "grep -qx RANK=" +
         std::to_string(rank) + " && kill -" + signal + " $c; done";
}

// Ranks 0 and 1 are the first stage, 2 and 3 the second.
constexpr const char* kTwoByTwo =
    " --set parallelism.data_parallel_shard=1 --set parallelism.tensor_parallel=2 "
    "--set parallelism.pipeline_parallel=2 "
    "--set parallelism.pipeline_parallel_layers_per_stage=auto";

// No time-out ends the others while a command of a test may run: the loss of the worker does.
TEST_F(ProcessTraining, AWorkerKilledInAStepEndsTheOthers) {
  const CommandResult result = sh(after_two_steps(
      msrun("--log_dir=logs", "out", 100000) + kTwoByTwo + " --set training.timeout_seconds=7200",
      signal_to_rank("KILL", 2)));
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_THAT(result.err, testing::ContainsRegex(
                              "error: rank 2 was killed by signal 9 .Killed. in step [0-9]+"));
  EXPECT_THAT(result.err, testing::ContainsRegex("rank [013] in step [0-9]+ waited for rank 2: "));
}

TEST_F(ProcessTraining, AWorkerThatHangsInAStepIsNamed) {
  const CommandResult result = sh(after_two_steps(
      msrun("--log_dir=logs", "out", 100000) + kTwoByTwo + " --set training.timeout_seconds=30",
      signal_to_rank("STOP", 2)));
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_THAT(result.err,
              testing::ContainsRegex("error: rank 2 is stopped by a signal .* in step [0-9]+"));
  EXPECT_THAT(result.err, testing::ContainsRegex("rank [013] in step [0-9]+ waited for rank 2: "));
  EXPECT_THAT(result.err, testing::ContainsRegex("step [0-9]+: .*no answer within 30 s from.* 2"));
}

// The rank that is at fault is on the other node than the first that notices may be.
TEST_F(ProcessTraining, AWorkerThatHangsOnAnotherNodeIsNamedOnBoth) {
  const std::string more = std::string(kTwoByTwo) + " --set training.timeout_seconds=30";
  const CommandResult result =
      sh(msrun("--local_worker_num=2 --node_rank=0 --log_dir=n0", "out", 100000) + more +
         " 2>zero & z=$!; " +
         after_two_steps(
             msrun("--local_worker_num=2 --node_rank=1 --log_dir=n1", "out", 100000) + more,
             signal_to_rank("STOP", 3)) +
         "; code=$?; wait $z; cat zero; exit $code");
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_THAT(result.err,
              testing::ContainsRegex("error: rank 3 is stopped by a signal .* in step"));
  EXPECT_THAT(result.out, testing::ContainsRegex("error: rank 3 on node 1 is stopped by a signal"));
}

// A token outside the vocabulary, which one rank alone reads.
TEST_F(ProcessTraining, OneThatThrowsIsNamedAndEndsTheOthers) {
  std::string text(8 * 16 * 40, 'a');
  text[8 * 16 * 30] = '~';
  write_file(folder_ / "text", text);
  ASSERT_EQ(sh("tessera preprocess --input text --output tokens").code, 0);
  write_file(folder_ / "x.yaml", R"(
training: {steps: 39, global_batch_size: 8}
checkpoint: {enable_save: false}
lr_scheduler: {type: ConstantWarmUpLR, learning_rate: 1.0e-3, warmup_steps: 0}
train_dataset:
  dataloader:
    type: BlendedMegatronDatasetDataLoader
    config: {seq_length: 16, data_path: [tokens], split: "1,0,0"}
model: {model_type: llama, vocab_size: 120, hidden_size: 16, intermediate_size: 32,
        num_hidden_layers: 1, num_attention_heads: 2, num_key_value_heads: 2, head_dim: 8,
        compute_dtype: float32}
)");
  const CommandResult result = sh("msrun --worker_num=4 --master_port=" + port_ +
                                  " --join=True --log_dir=logs run_mindformer.py --config x.yaml");
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_THAT(result.err, testing::ContainsRegex("rank [0-3] failed with exit code 2"));
  const std::string cause = "token id 126";
  ASSERT_THAT(result.err, HasSubstr(cause));
  EXPECT_EQ(result.err.find(cause), result.err.rfind(cause)) << "told once:\n" << result.err;
}

TEST_F(ProcessTraining, ALossThatIsNotFiniteEndsAllAlike) {
  change_engine("--plant non_finite_loss:2:2");
  const CommandResult result = sh("PATH=$PWD/bin:$PATH; " + msrun("--log_dir=logs", "out"));
  EXPECT_EQ(result.code, 5) << result.err;
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("failed with exit code 5"),
                    HasSubstr("step 2: loss is not finite, first on rank 2 (samples ")));
  EXPECT_EQ(steps_of("out").size(), 1u);
  for (const char* rank : {"0", "1", "2", "3"}) {
    EXPECT_THAT(read_file(folder_ / ("logs/worker_" + std::string(rank) + ".log")),
                HasSubstr("nothing was updated"));
  }
}

TEST_F(ProcessTraining, TermEndsAfterAWholeStep) {
  const CommandResult result =
      sh(after_two_steps(msrun("--log_dir=logs", "out", 4000), "kill -TERM $p"));
  EXPECT_EQ(result.code, 143) << result.err;
  EXPECT_THAT(result.err, HasSubstr("the workers end after their current step"));
  EXPECT_GE(steps_of("out").size(), 2u);
}

// What processes receive before they add it is counted.
TEST_F(ProcessTraining, EndsWithTheMemoryThatWasPlanned) {
  const CommandResult result = sh(msrun("--log_dir=logs", "out"));
  ASSERT_EQ(result.code, 0) << result.err;
  const size_t line = result.out.find("peak memory");
  ASSERT_NE(line, std::string::npos) << result.out;
  const size_t sign = result.out.find_first_of("+-", line);
  EXPECT_NEAR(std::stod(result.out.substr(sign)), 0.0, 3.0) << result.out.substr(line);
}

// 50 steps of the model of `make train`, on its text.
TEST_F(ProcessTraining, BFloat16HasTheCurveOfFloat32) {
  const std::string demonstration =
      (std::filesystem::path(TESSERA_SOURCE_DIR) / "configs/train_small.yaml").string();
  const auto curve = [&](const std::string& type) {
    const CommandResult run =
        sh("tessera train --config '" + demonstration + "' --set training.steps=50 --set " +
           "lr_scheduler.total_steps=1000 --set model.compute_dtype=" + type +
           " --set output_dir=" + type);
    EXPECT_EQ(run.code, 0) << run.err;
    return steps_of(type);
  };
  ASSERT_EQ(sh("tessera preprocess --input $(find /usr/share/common-licenses -type f | sort) "
               "--output data/train_small --tokenizer byte --append-eod")
                .code,
            0);
  const std::vector<Step> wide = curve("float32"), narrow = curve("bfloat16");
  ASSERT_EQ(wide.size(), 50u);
  ASSERT_EQ(narrow.size(), 50u);
  EXPECT_LT(wide.back().loss, 0.6 * wide.front().loss);
  EXPECT_NE(wide.back().loss, narrow.back().loss);
  for (size_t step = 40; step < 50; ++step) {
    EXPECT_NEAR(narrow[step].loss / wide[step].loss, 1.0, 1e-2) << "step " << step + 1;
  }
}

}  // namespace
}  // namespace tessera
