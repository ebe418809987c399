// msrun as a program, beside an engine that is a shell script: what the launcher does with workers
// of every kind, without libtorch.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "command.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

constexpr const char* kConfig = R"(
training: {steps: 2, global_batch_size: 8}
checkpoint: {enable_save: false}
lr_scheduler: {type: ConstantWarmUpLR, learning_rate: 1.0e-3, warmup_steps: 0}
train_dataset:
  dataloader:
    type: BlendedMegatronDatasetDataLoader
    config: {seq_length: 16, data_path: [tokens], split: "1,0,0"}
model:
  model_type: llama
  vocab_size: 258
  hidden_size: 16
  intermediate_size: 32
  num_hidden_layers: 2
  num_attention_heads: 2
  num_key_value_heads: 2
  head_dim: 8
  compute_dtype: float32
)";

class Msrun : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(folder_ / "bin");
    for (const char* name : {"msrun", "tessera"}) {
      std::filesystem::copy_file(programs() + "/" + name, folder_ / ("bin/" + std::string(name)));
    }
    write_file(folder_ / "x.yaml", kConfig);
    write_file(folder_ / "text", std::string(5000, 'a'));
    const CommandResult tokens = sh("bin/tessera preprocess --input text --output tokens");
    ASSERT_EQ(tokens.code, 0) << tokens.err;
    engine("echo rank $RANK; exit 0");
    port_ = std::to_string(free_port());
  }

  void engine(const std::string& script) {
    const std::string path = folder_ / "bin/tessera-engine";
    write_file(path, "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }

  CommandResult sh(const std::string& command) {
    return run_command("PATH=$PWD/bin:$PATH; " + command, folder_.path());
  }

  std::string page(int workers, const std::string& more = "") const {
    const std::string n = std::to_string(workers);
    return "msrun --worker_num=" + n + " --local_worker_num=" + n + " --master_port=" + port_ +
           " --join=True " + more + " run_mindformer.py --config x.yaml --mode 1";
  }

  std::string file(const std::string& name) const { return read_file(folder_ / name); }

  TemporaryFolder folder_;
  std::string port_;
};

TEST_F(Msrun, TheCommandOfTheDocument) {
  engine("echo rank $RANK of $WORLD_SIZE: $@");
  // A script of that name in the working directory is not what is meant.
  write_file(folder_ / "run_mindformer.py", "raise SystemExit(9)\n");
  const CommandResult result = sh(page(8));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "rank 0 of 8: train --config x.yaml\n");
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(file("worker_" + std::to_string(rank) + ".log"),
              "rank " + std::to_string(rank) + " of 8: train --config x.yaml\n");
  }
}

TEST_F(Msrun, TesseraLaunchIsTheSame) {
  const CommandResult result =
      sh("tessera launch --worker_num 2 --master_port " + port_ +
         " --join True --log_dir logs/deep run_mindformer.py --config x.yaml --mode=1");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(file("logs/deep/worker_1.log"), "rank 1\n");
}

TEST_F(Msrun, WorkersFindTheirEnvironment) {
  engine("env | grep -E '^(RANK|WORLD|LOCAL|MASTER|MS_|TESSERA_JOB|OMP)' | sort");
  const CommandResult result = sh("unset OMP_NUM_THREADS; " + page(2, "--cluster_time_out=77"));
  EXPECT_EQ(result.code, 0) << result.err;
  const std::string log = file("worker_1.log");
  for (const std::string& line :
       {std::string("RANK=1"), std::string("WORLD_SIZE=2"), std::string("LOCAL_RANK=1"),
        std::string("LOCAL_WORLD_SIZE=2"), std::string("MASTER_ADDR=127.0.0.1"),
        "MASTER_PORT=" + port_, std::string("MS_ROLE=MS_WORKER"),
        std::string("MS_SCHED_HOST=127.0.0.1"), "MS_SCHED_PORT=" + port_,
        std::string("MS_WORKER_NUM=2"), std::string("MS_TOPO_TIMEOUT=77"),
        std::string("RANK_SIZE=2"), std::string("RANK_ID=1"), std::string("OMP_NUM_THREADS=")}) {
    EXPECT_THAT("\n" + log, HasSubstr("\n" + line));
  }
  EXPECT_THAT(log, HasSubstr("TESSERA_JOB_ID="));
}

TEST_F(Msrun, AllLogsOnRequest) {
  const CommandResult result = sh(page(2, "--tail_worker_log=-1 --worker_log_name=w"));
  EXPECT_THAT(result.out, AllOf(HasSubstr("[0] rank 0\n"), HasSubstr("[1] rank 1\n")));
  EXPECT_EQ(file("w_1.log"), "rank 1\n");
}

TEST_F(Msrun, TheFailureIsReportedOnceAndItsCodeReturned) {
  engine("if [ $RANK = 3 ]; then echo 'error: loss is not finite at step 2'; exit 5; fi; exit 3");
  const CommandResult result = sh(page(4));
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.err, HasSubstr("rank 3 failed with exit code 5"));
  EXPECT_THAT(result.err, MatchesRegex(".*error: loss is not finite at step 2[^:]*"));
}

TEST_F(Msrun, AKilledWorkerEndsTheOthers) {
  engine(
      "if [ $RANK = 2 ]; then sleep 0.3; kill -KILL $$; fi; trap '' TERM; "
      "while :; do sleep 0.1; done");
  const CommandResult result = sh(page(4));
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("rank 2 was killed by signal 9"));
}

TEST_F(Msrun, TermEndsAfterTheStep) {
  engine("trap 'exit 143' TERM; touch ready$RANK; while :; do sleep 0.05; done");
  const CommandResult result =
      sh(page(2) +
         " & pid=$!; while ! [ -e ready0 -a -e ready1 ]; do sleep 0.05; done; "
         "kill -TERM $pid; wait $pid");
  EXPECT_EQ(result.code, 143);
  EXPECT_THAT(result.err, HasSubstr("Terminated: the workers end after their current step"));
}

TEST_F(Msrun, WorkersEndWithAKilledLauncher) {
  engine("echo $$ > pid$RANK; exec sleep 10000");
  const CommandResult result =
      sh(page(2) +
         " & pid=$!; while ! [ -s pid0 -a -s pid1 ]; do sleep 0.05; done; "
         "kill -KILL $pid; wait $pid; for p in $(cat pid0 pid1); do for i in $(seq 6000); do "
         "grep -qs 'State:.S' /proc/$p/status || break; sleep 0.1; done; "
         "grep -s State: /proc/$p/status; done");
  EXPECT_THAT(result.out, Not(HasSubstr("sleeping")));
}

TEST_F(Msrun, TheSecondJobOnAPortStopsAtOnce) {
  engine("touch ready; while ! [ -e stop ]; do sleep 0.05; done");
  const CommandResult result =
      sh(page(1) + " & while ! [ -e ready ]; do sleep 0.05; done; " + page(1, "--log_dir=second") +
         "; code=$?; touch stop; wait; exit $code");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("port " + port_ + " (--master_port) is taken"),
                    HasSubstr("another job"), HasSubstr("free is for example --master_port=")));
}

// What a killed launcher leaves may have the port for a moment.
TEST_F(Msrun, ARunThatMayStartAgainWaitsForItsPort) {
  engine("touch ready$TESSERA_GENERATION; [ -e second ] || until [ -e stop ]; do sleep 0.05; done");
  const CommandResult result = sh(page(1) +
                                  " & while ! [ -e ready1 ]; do sleep 0.05; done; touch second; "
                                  "(sleep 1; touch stop) & " +
                                  page(1, "--max_restarts=1 --log_dir=second_logs"));
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST_F(Msrun, TwoJobsOnTwoPortsBothFinish) {
  const int other = free_port();
  const CommandResult result =
      sh(page(2) + " & " + "msrun --worker_num=2 --master_port=" + std::to_string(other) +
         " --join=True --log_dir=second run_mindformer.py --config x.yaml & "
         "wait %1 && wait %2");
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST_F(Msrun, TwoNodesOnOneHost) {
  const std::string common = "msrun --worker_num=4 --local_worker_num=2 --master_port=" + port_ +
                             " --cluster_time_out=600 --join=True";
  const std::string script = " run_mindformer.py --config x.yaml --mode 1";
  const CommandResult result =
      sh(common + " --node_rank=1 --log_dir=n1" + script + " & " + common +
         " --node_rank=0 --log_dir=n0" + script + "; a=$?; wait %1 && exit $a");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(file("n0/worker_1.log"), "rank 1\n");
  EXPECT_EQ(file("n1/worker_3.log"), "rank 3\n");
}

TEST_F(Msrun, NodesAreNumberedWhenNobodyDoes) {
  const std::string common = "msrun --worker_num=2 --local_worker_num=1 --master_port=" + port_ +
                             " --cluster_time_out=600 --join=True --log_dir=logs"
                             " run_mindformer.py --config x.yaml --mode 1";
  const CommandResult result = sh(common + " & " + common + "; a=$?; wait %1 && exit $a");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(file("logs/worker_0.log"), "rank 0\n");
  EXPECT_EQ(file("logs/worker_1.log"), "rank 1\n");
}

TEST_F(Msrun, AFailureOnOneNodeEndsTheOther) {
  engine("if [ $RANK = 1 ]; then echo 'error: broken'; exit 4; fi; exec sleep 10000");
  const std::string common = "msrun --worker_num=2 --local_worker_num=1 --master_port=" + port_ +
                             " --join=True --log_dir=logs";
  const std::string script = " run_mindformer.py --config x.yaml --mode 1";
  const CommandResult result =
      sh(common + " --node_rank=1" + script + " 2>one & " + common + " --node_rank=0" + script +
         "; a=$?; wait %1; echo $? >code; "
         "exit $a");
  EXPECT_EQ(result.code, 4);
  EXPECT_EQ(file("code"), "4\n");
  EXPECT_THAT(result.err, AllOf(HasSubstr("on node 1: rank 1 failed with exit code 4"),
                                HasSubstr("error: broken")));
}

TEST_F(Msrun, TooFewWorkersAreNamed) {
  const CommandResult result =
      sh("msrun --worker_num=4 --local_worker_num=3 --master_port=" + port_ +
         " --cluster_time_out=1 --join=True run_mindformer.py --config x.yaml --mode 1");
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("3 of 4 workers joined in 1 s (--cluster_time_out); "
                                    "missing rank 3"));
}

TEST_F(Msrun, WithoutJoinItReturnsAtOnceAndTheWorkersGoOn) {
  engine("while [ -d logs ] && ! [ -e go ]; do sleep 0.05; done; echo rank $RANK done");
  const CommandResult result =
      sh("msrun --worker_num=2 --master_port=" + port_ +
         " --log_dir=logs run_mindformer.py --config x.yaml --mode 1; echo $?; "
         "grep -qs done logs/worker_1.log && echo late; touch go; for i in $(seq 6000); do "
         "grep -qs done logs/worker_1.log && break; sleep 0.1; done");
  EXPECT_EQ(result.out, "0\n");  // it returned before the workers' end
  EXPECT_THAT(result.err, HasSubstr("2 workers start in the background"));
  EXPECT_EQ(file("logs/worker_1.log"), "rank 1 done\n");
}

TEST_F(Msrun, WithoutJoinAFailureStandsInTheLogOfTheWatcher) {
  engine("echo 'error: broken'; exit 5");
  sh("msrun --worker_num=1 --master_port=" + port_ +
     " --log_dir=logs run_mindformer.py --config x.yaml --mode 1; for i in $(seq 6000); do "
     "grep -q broken logs/scheduler.log && break; sleep 0.1; done");
  EXPECT_THAT(file("logs/scheduler.log"), HasSubstr("rank 0 failed with exit code 5"));
}

TEST_F(Msrun, RefusedBeforeAnyWorkerStarts) {
  engine("touch started");
  struct Case {
    std::string command;
    std::vector<std::string> says;
  };
  const std::vector<Case> cases = {
      {"msrun --worker_num=8 --join=True run_mindformer.py --config x.yaml --mode 0",
       {"--mode 0", "only 1"}},
      {"msrun --worker_num=8 --join=True train.py --config x.yaml", {"run_mindformer.py"}},
      {"msrun --worker_num=8 --join=True run_mindformer.py --config none.yaml", {"none.yaml"}},
      {page(6, "") + " --set parallelism.tensor_parallel=4", {"tensor_parallel", "6 ranks"}},
      {page(8) + " --set training.global_batch_size=3 --set model.hidden_sise=3",
       {"global_batch_size", "hidden_size"}},
      {page(8, "--master_addr=192.0.2.1"), {"--master_addr 192.0.2.1"}},
      {page(8, "--bind_core=some"), {"--bind_core=some"}},
  };
  for (const Case& one : cases) {
    const CommandResult result = sh(one.command);
    EXPECT_EQ(result.code, 2) << one.command << "\n" << result.err;
    for (const std::string& text : one.says) EXPECT_THAT(result.err, HasSubstr(text));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "started"));
}

TEST_F(Msrun, FlagsWithoutEffectAreNamedInOneLine) {
  const CommandResult result =
      sh(page(1, "--rank_table_file=r.json") + " --register_path p --use_parallel True");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err,
              HasSubstr("without effect here: --rank_table_file --register_path --use_parallel\n"));
}

TEST_F(Msrun, ALostWorkerStartsTheRunAgain) {
  engine(
      "echo start $TESSERA_GENERATION of rank $RANK; [ $TESSERA_GENERATION = 2 ] && exit 0; "
      "[ $RANK = 1 ] && kill -KILL $$; exec sleep 10000");
  const CommandResult result = sh(page(2, "--max_restarts=2"));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(file("worker_0.log"), "start 1 of rank 0\n");
  EXPECT_EQ(file("worker_0.start_2.log"), "start 2 of rank 0\n");
  EXPECT_EQ(result.out, "start 1 of rank 0\nstart 2 of rank 0\n");
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("rank 1 was killed by signal 9"),
                    HasSubstr("the run starts again (start 2)"), HasSubstr("1 restart:")));
}

// Two nodes, each beside a launcher of its own; $1 is the node.
std::string node_command(const std::string& port, const std::string& more) {
  return "node() { msrun --worker_num=2 --local_worker_num=1 --master_port=" + port +
         " --join=True --log_dir=logs --node_rank=$1 " + more +
         " run_mindformer.py --config x.yaml --mode 1; }; "
         "there() { while ! [ -e $1 ]; do sleep 0.05; done; }; ";
}

// In its second start the run ends well; before, the workers stay until they are ended.
constexpr const char* kStays =
    "touch start$TESSERA_GENERATION.$RANK; [ $TESSERA_GENERATION -gt 1 ] && exit 0; "
    "exec sleep 10000";

TEST_F(Msrun, ALostWorkerStartsBothNodesAgain) {
  engine("[ $TESSERA_GENERATION.$RANK = 1.1 ] && kill -KILL $$; " + std::string(kStays));
  const CommandResult result = sh(node_command(port_, "--max_restarts=2") +
                                  "node 1 2>one & node 0; a=$?; wait %1; echo $?; exit $a");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "0\n");
  EXPECT_THAT(result.err, HasSubstr("on node 1: rank 1 was killed by signal 9"));
  EXPECT_THAT(file("one"), HasSubstr("the run starts again (start 2)"));
}

TEST_F(Msrun, ANewLauncherTakesThePlaceOfALostOne) {
  engine(kStays);
  const CommandResult result =
      sh(node_command(port_, "--max_restarts=2") +
         "node 0 2>zero & zero=$!; node 1 2>one & one=$!; there start1.0; there start1.1; "
         "l=$(cat /proc/$one/task/$one/children); kill -KILL $l; wait $one; node 1; a=$?; "
         "wait $zero; echo $?; exit $a");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "0\n");
  EXPECT_THAT(file("zero"), HasSubstr("the launcher of node 1 is gone"));
}

TEST_F(Msrun, ANewNodeZeroGoesOnWithTheRun) {
  engine(kStays);
  const CommandResult result =
      sh(node_command(port_, "--max_restarts=2") +
         "node 0 2>zero & zero=$!; node 1 2>one & one=$!; there start1.0; there start1.1; "
         "l=$(cat /proc/$zero/task/$zero/children); kill -KILL $l; wait $zero; node 0; a=$?; "
         "wait $one; echo $?; exit $a");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "0\n");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "start2.0"));
}

TEST_F(Msrun, ANodeZeroThatDoesNotComeBackIsCodeThree) {
  engine(kStays);
  const CommandResult result =
      sh(node_command(port_, "--max_restarts=2 --cluster_time_out=5") +
         "node 0 2>zero & zero=$!; node 1 & one=$!; there start1.0; there start1.1; "
         "l=$(cat /proc/$zero/task/$zero/children); kill -KILL $l; wait $zero; wait $one");
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_THAT(result.err, HasSubstr("cannot reach the launcher of node 0"));
}

// A launcher that stands still closes no connection.
TEST_F(Msrun, ALauncherThatStandsStillIsLost) {
  engine(kStays);
  const CommandResult result =
      sh(node_command(port_, "--heartbeat_timeout=4") +
         "node 0 & zero=$!; node 1 2>one & one=$!; there start1.0; there start1.1; "
         "l=$(cat /proc/$one/task/$one/children); kill -STOP $l; wait $zero; a=$?; "
         "kill -KILL $l; wait $one; exit $a");
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_THAT(result.err, HasSubstr("the launcher of node 1 has said nothing for 4 s"));
}

TEST_F(Msrun, AfterTheGraceNothingRuns) {
  engine("trap '' TERM; touch ready; while :; do sleep 0.1; done");
  const CommandResult result =
      sh(page(1, "--grace=1") +
         " & pid=$!; while ! [ -e ready ]; do sleep 0.05; done; kill -USR1 $pid; wait $pid");
  EXPECT_EQ(result.code, 138);
  EXPECT_THAT(result.err, HasSubstr("the time of --grace is over"));
}

}  // namespace
}  // namespace tessera
