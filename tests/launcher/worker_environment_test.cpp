#include "tessera/launcher/worker_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tessera/base/error.h"

namespace tessera {
namespace {

using testing::HasSubstr;

std::optional<WorkerEnvironment> read(const std::map<std::string, std::string>& variables) {
  return read_worker_environment([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

std::string refusal(const std::map<std::string, std::string>& variables) {
  try {
    read(variables);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(WorkerEnvironment, NoneOutsideALauncher) { EXPECT_FALSE(read({{"HOME", "/root"}})); }

TEST(WorkerEnvironment, Torchrun) {
  const auto worker = read({{"RANK", "5"},
                            {"WORLD_SIZE", "8"},
                            {"LOCAL_RANK", "1"},
                            {"LOCAL_WORLD_SIZE", "4"},
                            {"MASTER_ADDR", "node0"},
                            {"MASTER_PORT", "29500"},
                            {"TORCHELASTIC_RUN_ID", "job"},
                            {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  ASSERT_TRUE(worker);
  EXPECT_EQ(worker->rank, 5);
  EXPECT_EQ(worker->world, 8);
  EXPECT_EQ(worker->local_rank, 1);
  EXPECT_EQ(worker->local_world, 4);
  EXPECT_EQ(worker->master_addr, "node0");
  EXPECT_EQ(worker->master_port, 29501);  // torchrun serves a store of its own at 29500
  EXPECT_EQ(worker->job_id, "job");
}

TEST(WorkerEnvironment, LaunchersThatStartAgainCount) {
  std::map<std::string, std::string> worker = {{"RANK", "0"}, {"WORLD_SIZE", "2"}};
  EXPECT_EQ(read(worker)->generation, 0);
  worker["TORCHELASTIC_RESTART_COUNT"] = "2";
  EXPECT_EQ(read(worker)->generation, 0);
  worker["TORCHELASTIC_RUN_ID"] = "none";  // it could be any run
  EXPECT_EQ(read(worker)->generation, 0);
  worker["TORCHELASTIC_RUN_ID"] = "mine";
  EXPECT_EQ(read(worker)->generation, 3);
  worker["TESSERA_JOB_ID"] = "ours";
  worker["TESSERA_GENERATION"] = "7";
  EXPECT_EQ(read(worker)->generation, 7);
  std::map<std::string, std::string> step = {
      {"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "0"}};
  EXPECT_EQ(read(step)->generation, 0);
  step["SLURM_JOB_ID"] = "5";
  EXPECT_EQ(read(step)->generation, 1);
  step["SLURM_RESTART_COUNT"] = "1";
  EXPECT_EQ(read(step)->generation, 2);
}

TEST(WorkerEnvironment, OurLauncherComesBeforeSlurm) {
  const auto worker = read({{"RANK", "1"},
                            {"WORLD_SIZE", "2"},
                            {"TESSERA_JOB_ID", "abc"},
                            {"SLURM_PROCID", "0"},
                            {"SLURM_STEP_ID", "0"},
                            {"SLURM_NTASKS", "1"},
                            {"SLURM_LOCALID", "0"}});
  EXPECT_EQ(worker->rank, 1);
  EXPECT_EQ(worker->job_id, "abc");
}

TEST(WorkerEnvironment, SlurmStep) {
  const auto worker = read({{"SLURM_PROCID", "9"},
                            {"SLURM_STEP_ID", "2"},
                            {"SLURM_JOB_ID", "1234567"},
                            {"SLURM_NTASKS", "16"},
                            {"SLURM_STEP_NUM_TASKS", "12"},
                            {"SLURM_LOCALID", "1"},
                            {"SLURM_STEP_NODELIST", "gpu[07-08,11],cpu3"}});
  ASSERT_TRUE(worker);
  EXPECT_EQ(worker->rank, 9);
  EXPECT_EQ(worker->world, 12);
  EXPECT_EQ(worker->local_rank, 1);
  EXPECT_EQ(worker->master_addr, "gpu07");
  EXPECT_EQ(worker->master_port, 24569);
  EXPECT_EQ(worker->job_id, "1234567.2");
}

TEST(WorkerEnvironment, SlurmStepWithoutOptionalVariables) {
  const auto worker = read({{"SLURM_PROCID", "3"},
                            {"SLURM_STEP_ID", "0"},
                            {"SLURM_STEP_NUM_TASKS", "7"},
                            {"SLURM_LOCALID", "0"},
                            {"SLURM_NODEID", "3"},
                            {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}});
  ASSERT_TRUE(worker);
  EXPECT_EQ(worker->world, 7);
  EXPECT_EQ(worker->local_world, 1);
}

TEST(WorkerEnvironment, FirstHostOfTheWholeGrammar) {
  std::map<std::string, std::string> step = {{"SLURM_PROCID", "0"},
                                             {"SLURM_STEP_ID", "0"},
                                             {"SLURM_NTASKS", "4"},
                                             {"SLURM_LOCALID", "0"},
                                             {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"}};
  const auto host = [&](const std::string& list) {
    step["SLURM_STEP_NODELIST"] = list;
    return read(step)->master_addr;
  };
  EXPECT_EQ(host("gpu[1-4]-ib"), "gpu1-ib");
  EXPECT_EQ(host("rack[0-1]node[1-4]"), "rack0node1");
  EXPECT_EQ(host("r[007,9]n[010-012]-ib,other[1-2]"), "r007n010-ib");
  EXPECT_EQ(read(step)->local_world, 4);
  EXPECT_EQ(host("n[0001-0128]"), "n0001");
  EXPECT_EQ(host("[1-3]a"), "1a");
  EXPECT_EQ(host("a.b_c-d[3].example.org"), "a.b_c-d3.example.org");
  EXPECT_EQ(host("a[1-2][3-4]"), "a13");
  EXPECT_EQ(host("n[9-10]"), "n9");
  for (const char* wrong : {"gpu[1-4", "gpu]1", "gpu[]", "gpu[a-b]", "gpu[1[2]]", ",b", "gpu[1-]",
                            "gpu[-1]", "gpu[1,]", "gpu[4-1]", "gpu[1-2-3]", "gpu[1 - 2]",
                            "gpu1 gpu2", "gpu1;gpu2", "a,b[1-", "gpu{1..4}", "[000x133]b"}) {
    try {
      host(wrong);
      ADD_FAILURE() << wrong;
    } catch (const ConfigError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(std::string("SLURM_STEP_NODELIST=") + wrong), std::string::npos) << text;
      EXPECT_NE(text.find("MASTER_ADDR"), std::string::npos) << text;
    }
  }
  step["MASTER_ADDR"] = "head";
  EXPECT_EQ(host("gpu[1-4"), "head");
}

TEST(WorkerEnvironment, ABatchScriptIsNoWorker) {
  EXPECT_FALSE(read({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "1"}}));
}

TEST(WorkerEnvironment, FirstHostOfPlainLists) {
  std::map<std::string, std::string> step = {
      {"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "0"}};
  step["SLURM_STEP_NODELIST"] = "alpha,beta[1-2]";
  EXPECT_EQ(read(step)->master_addr, "alpha");
  step["SLURM_STEP_NODELIST"] = "alone";
  EXPECT_EQ(read(step)->master_addr, "alone");
  step["MASTER_ADDR"] = "given";
  step["MASTER_PORT"] = "4000";
  EXPECT_EQ(read(step)->master_addr, "given");
  EXPECT_EQ(read(step)->master_port, 4000);
}

TEST(WorkerEnvironment, OpenMpi) {
  const auto worker = read({{"OMPI_COMM_WORLD_RANK", "3"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}});
  EXPECT_EQ(worker->rank, 3);
  EXPECT_EQ(worker->master_addr, "127.0.0.1");
  EXPECT_THAT(refusal({{"OMPI_COMM_WORLD_RANK", "3"},
                       {"OMPI_COMM_WORLD_SIZE", "4"},
                       {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
              HasSubstr("mpirun -x MASTER_ADDR="));
}

TEST(WorkerEnvironment, Mpich) {
  const auto worker = read(
      {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}});
  ASSERT_TRUE(worker);
  EXPECT_EQ(worker->rank, 1);
  EXPECT_EQ(worker->world, 2);
  EXPECT_THAT(refusal({{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}}), HasSubstr("MASTER_ADDR=HOST"));
  EXPECT_THAT(refusal({{"PMI_RANK", "1"}}), HasSubstr("PMI_RANK is set, but not PMI_SIZE"));
}

TEST(WorkerEnvironment, OneOfTwoVariablesAroundAStepIsNotTheLaunchers) {
  const auto worker = read({{"WORLD_SIZE", "16"},  // as scripts for torch export it
                            {"MASTER_ADDR", "head"},
                            {"SLURM_PROCID", "3"},
                            {"SLURM_STEP_ID", "0"},
                            {"SLURM_NTASKS", "8"}});
  ASSERT_TRUE(worker);
  EXPECT_EQ(worker->rank, 3);
  EXPECT_EQ(worker->world, 8);
  EXPECT_EQ(worker->master_addr, "head");
}

TEST(WorkerEnvironment, WhatNobodyTellsOfTheHostIsNotGuessed) {
  EXPECT_EQ(read({{"RANK", "1"}, {"WORLD_SIZE", "8"}})->local_world, 0);
  EXPECT_EQ(
      read({{"SLURM_PROCID", "3"}, {"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "8"}})->local_world, 0);
}

TEST(WorkerEnvironment, RefusesWhatMakesNoSense) {
  EXPECT_THAT(refusal({{"RANK", "1"}}), HasSubstr("RANK is set, but not WORLD_SIZE"));
  EXPECT_THAT(refusal({{"RANK", "x"}, {"WORLD_SIZE", "2"}}), HasSubstr("RANK=x must be a number"));
  EXPECT_THAT(refusal({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), HasSubstr("rank 2 of 2"));
  EXPECT_THAT(refusal({{"RANK", "0"}, {"WORLD_SIZE", "99999999999"}}),
              HasSubstr("WORLD_SIZE=99999999999 must be a number from 0 to 2147483647"));
  EXPECT_THAT(refusal({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "-1"}}),
              HasSubstr("LOCAL_RANK=-1 must be a number"));
  EXPECT_THAT(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "70000"}}),
              HasSubstr("MASTER_PORT must be 1 to 65535"));
}

}  // namespace
}  // namespace tessera
