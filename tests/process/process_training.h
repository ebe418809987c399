#pragma once

// Trainings by processes: the real launcher, the real engine, on a small case.

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "command.h"
#include "tests/support/case_path.h"

namespace tessera {

struct Step {
  double loss = 0.0;
  double grad_norm = 0.0;
};

class ProcessTraining : public testing::Test {
 protected:
  CommandResult sh(const std::string& command) const {
    return run_command("export OMP_NUM_THREADS=1 PATH='" + programs() + "':$PATH; " + command,
                       folder_.path());
  }

  // The reference run (eight samples a step) cut over the ranks; its output goes to `output`.
  std::string arguments(const std::string& output, int steps = 3, int ranks = 4) const {
    return " --config '" + (test::case_path("llama_sgd64") / "config.yaml").string() +
           "' --set parallelism.data_parallel_shard=" + std::to_string(ranks) +
           " --set training.local_batch_size=" + std::to_string(8 / ranks) +
           " --set training.steps=" + std::to_string(steps) + " --set output_dir=" + output;
  }

  std::string msrun(const std::string& flags, const std::string& output, int steps = 3,
                    int ranks = 4) const {
    return "msrun --worker_num=" + std::to_string(ranks) + " --master_port=" + port_ +
           " --join=True " + flags + " run_mindformer.py" + arguments(output, steps, ranks) +
           " --mode 1";
  }

  // The launcher in bin/, beside an engine that gets `more` arguments.
  void change_engine(const std::string& more) const {
    std::filesystem::create_directory(folder_ / "bin");
    std::filesystem::copy_file(programs() + "/msrun", folder_ / "bin/msrun");
    const std::string engine = folder_ / "bin/tessera-engine";
    write_file(engine, "#!/bin/sh\nexec '" + programs() + "/tessera-engine' \"$@\" " + more + "\n");
    std::filesystem::permissions(engine, std::filesystem::perms::owner_all);
  }

  std::vector<Step> steps_of(const std::string& output) const {
    std::vector<Step> steps;
    std::istringstream lines(read_file(folder_ / (output + "/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line);
      if (json.contains("restart")) continue;
      steps.push_back({json.at("loss"), json.at("grad_norm")});
    }
    return steps;
  }

  void expect_equal_to_threads(const std::string& output, int ranks = 4) const {
    const CommandResult threads =
        sh("tessera train --ranks " + std::to_string(ranks) + arguments("threads", 3, ranks));
    ASSERT_EQ(threads.code, 0) << threads.err;
    const std::vector<Step> expected = steps_of("threads");
    const std::vector<Step> steps = steps_of(output);
    ASSERT_EQ(expected.size(), 3u);
    ASSERT_EQ(steps.size(), expected.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      EXPECT_NEAR(steps[i].loss, expected[i].loss, 1e-10 * expected[i].loss);
      EXPECT_NEAR(steps[i].grad_norm, expected[i].grad_norm, 1e-10 * expected[i].grad_norm);
    }
  }

  // Four processes with the variables of a launcher; {} stands for the rank.
  CommandResult as_workers(const std::string& variables, const std::string& output) const {
    return sh("for r in 0 1 2 3; do (export " + variables + "; tessera train" + arguments(output) +
              " >$r.out 2>$r.err) & done; " +
              "wait %1 && wait %2 && wait %3 && wait %4; code=$?; cat ?.err >&2; exit $code");
  }

  const TemporaryFolder folder_;
  const std::string port_ = std::to_string(free_port());
};

}  // namespace tessera
