// Runs that lose workers and start again, with the real engine.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "process_training.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int kLongRun = 120;
constexpr const char* kSaves =
    " --set checkpoint.enable_save=true --set checkpoint.async_save=true"
    " --set checkpoint.save_interleaved_steps=5";

class RestartedTraining : public ProcessTraining {
 protected:
  // Two ranks and a launcher that starts them again; `script` runs in front of every worker, with
  // the engine in $engine.
  CommandResult run_with(const std::string& script) {
    change_engine("");
    write_file(folder_ / "bin/tessera-engine", "#!/bin/sh\nengine='" + programs() +
                                                   "/tessera-engine'\n"
                                                   "steps() { grep -cs '\"loss\"' "
                                                   "out/metrics.jsonl || true; }\n" +
                                                   script + "\nexec \"$engine\" \"$@\"\n");
    return sh("bin/" + msrun("--max_restarts=20 --log_dir=logs", "out", kLongRun, 2) + kSaves);
  }

  void expect_the_undisturbed_run() {
    const CommandResult calm =
        sh("tessera train --ranks 2" + arguments("calm", kLongRun, 2) + kSaves);
    ASSERT_EQ(calm.code, 0) << calm.err;
    const std::vector<Step> expected = steps_of("calm"), got = steps_of("out");
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].loss, expected[i].loss) << "step " << i + 1;
      ASSERT_EQ(got[i].grad_norm, expected[i].grad_norm) << "step " << i + 1;
    }
    const CommandResult weights =
        sh("for f in calm/checkpoint/iteration_00000120/checkpoint-*; do "
           "cmp $f out/${f#calm/} || exit 1; done");
    EXPECT_EQ(weights.code, 0) << weights.out << weights.err;
  }

  std::vector<nlohmann::json> restarts() const {
    std::vector<nlohmann::json> found;
    std::istringstream lines(read_file(folder_ / "out/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      auto json = nlohmann::json::parse(line);
      if (json.contains("restart")) found.push_back(std::move(json));
    }
    return found;
  }
};

TEST_F(RestartedTraining, KilledTwiceItHasTheLossesOfTheUndisturbedRun) {
  const CommandResult result = run_with(
      "if [ $TESSERA_GENERATION.$RANK = 1.1 ] || [ $TESSERA_GENERATION.$RANK = 2.0 ]; then "
      "\"$engine\" \"$@\" & p=$!; "
      "until [ \"$(steps)\" -ge $((TESSERA_GENERATION * 25)) ]; do sleep 0.01; done; "
      "kill -KILL $p; kill -KILL $$; fi");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("rank 1 was killed by signal 9"),
                    HasSubstr("rank 0 was killed by signal 9"), HasSubstr("2 restarts:")));
  expect_the_undisturbed_run();
  const auto lines = restarts();
  ASSERT_EQ(lines.size(), 2u);
  for (const auto& line : lines) {
    EXPECT_GT(line.at("seconds"), 0.0);
    EXPECT_GE(line.at("steps_finished"), 25);
    EXPECT_GE(line.at("steps_lost"), 0);
  }
}

// Three nodes of one worker each; the launcher of the last one is killed and does not come back.
TEST_F(RestartedTraining, WithANodeLessItGoesOnWithTheSameLosses) {
  const std::string flags =
      " --local_worker_num=1 --nnodes=2:3 --max_restarts=5 --heartbeat_timeout=2 --log_dir=logs";
  const auto node = [&](const std::string& rank) {
    return msrun("--node_rank=" + rank + flags, "out", kLongRun, 3) + kSaves;
  };
  const CommandResult result =
      sh("steps() { grep -cs '\"loss\"' out/metrics.jsonl || true; }; " + node("1") +
         " >one 2>&1 & " + node("2") + " >two 2>&1 & last=$!; " +
         "(until [ \"$(steps)\" -ge 25 ]; do sleep 0.01; done; kill -KILL $last) & " + node("0"));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("2 of 3 workers run: dp_shard 2"));
  const CommandResult calm = sh("tessera train --ranks 3" + arguments("calm", kLongRun, 3) +
                                " --set 'elastic.layouts=[{}]'");
  ASSERT_EQ(calm.code, 0) << calm.err;
  const std::vector<Step> expected = steps_of("calm"), got = steps_of("out");
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i].loss, expected[i].loss, 1e-10 * expected[i].loss) << "step " << i + 1;
    ASSERT_NEAR(got[i].grad_norm, expected[i].grad_norm, 1e-9 * expected[i].grad_norm) << i + 1;
  }
}

// A block of the newest checkpoint is damaged while nobody runs.
TEST_F(RestartedTraining, ADamagedCheckpointFallsBackToTheOneBefore) {
  const CommandResult result = run_with(
      "if [ $TESSERA_GENERATION.$RANK = 1.0 ]; then \"$engine\" \"$@\" & p=$!; "
      "until [ \"$(steps)\" -ge 45 ]; do sleep 0.01; done; kill -KILL $p; kill -KILL $$; fi; "
      "if [ $TESSERA_GENERATION.$RANK = 2.0 ]; then c=out/checkpoint; "
      "newest=$(printf '%s/iteration_%08d' $c $(cat $c/latest*.txt)); echo $newest > newest; "
      "printf spoilt | dd of=$newest/checkpoint-model-0000001-0000002.safetensors bs=1 seek=5000 "
      "conv=notrunc 2>/dev/null; fi");
  ASSERT_EQ(result.code, 0) << result.err;
  expect_the_undisturbed_run();
  EXPECT_THAT(read_file(folder_ / "logs/worker_0.start_2.log"),
              AllOf(HasSubstr("is passed over"), HasSubstr("resumed from")));
  ASSERT_EQ(restarts().size(), 1u);
  EXPECT_GE(restarts()[0].at("steps_lost"), 5);
}

}  // namespace
}  // namespace tessera
