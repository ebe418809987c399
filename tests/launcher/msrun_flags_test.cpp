#include "tessera/launcher/flags/msrun_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

MsrunFlags parse(std::vector<std::string> flags, bool with_script = true) {
  if (with_script) flags.insert(flags.end(), {"run_mindformer.py", "--config", "x.yaml"});
  return parse_msrun(flags, "msrun");
}

std::string refusal(std::vector<std::string> flags, bool with_script = true) {
  try {
    parse(std::move(flags), with_script);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(MsrunFlags, TheCommandOfTheDocument) {
  const MsrunFlags flags =
      parse_msrun({"--worker_num=8", "--local_worker_num=8", "--master_port=8118", "--join=True",
                   "run_mindformer.py", "--config", "your_config.yaml", "--mode", "1"},
                  "msrun");
  EXPECT_EQ(flags.worker_num, 8);
  EXPECT_EQ(flags.local_worker_num, 8);
  EXPECT_EQ(flags.master_port, 8118);
  EXPECT_TRUE(flags.join);
  EXPECT_THAT(flags.script,
              ElementsAre("run_mindformer.py", "--config", "your_config.yaml", "--mode", "1"));
  EXPECT_THAT(flags.no_effect, IsEmpty());
}

TEST(MsrunFlags, Defaults) {
  const MsrunFlags flags = parse({});
  EXPECT_EQ(flags.worker_num, 8);
  EXPECT_EQ(flags.local_worker_num, 8);
  EXPECT_EQ(flags.master_addr, "127.0.0.1");
  EXPECT_EQ(flags.master_port, 8118);
  EXPECT_EQ(flags.node_rank, -1);
  EXPECT_EQ(flags.log_dir, ".");
  EXPECT_FALSE(flags.join);
  EXPECT_EQ(flags.cluster_time_out, 600);
  EXPECT_EQ(flags.bind_core, "False");
  EXPECT_EQ(flags.worker_log_name, "worker");
  EXPECT_FALSE(flags.tail_worker_log.has_value());
}

TEST(MsrunFlags, ValuesWithAndWithoutEqualSign) {
  const MsrunFlags flags =
      parse({"--worker_num", "16", "--local_worker_num", "8", "--node_rank", "1", "--master_addr",
             "node0", "--join", "true", "--cluster_time_out", "30", "--log_dir", "logs",
             "--tail_worker_log", "-1"});
  EXPECT_EQ(flags.worker_num, 16);
  EXPECT_EQ(flags.node_rank, 1);
  EXPECT_EQ(flags.master_addr, "node0");
  EXPECT_TRUE(flags.join);
  EXPECT_EQ(flags.cluster_time_out, 30);
  EXPECT_EQ(flags.log_dir, "logs");
  ASSERT_TRUE(flags.tail_worker_log.has_value());
  EXPECT_THAT(*flags.tail_worker_log, IsEmpty());  // all
}

TEST(MsrunFlags, LocalWorkersFollowAFewWorkers) {
  EXPECT_EQ(parse({"--worker_num=3"}).local_worker_num, 3);
  EXPECT_EQ(parse({"--worker_num=16"}).local_worker_num, 8);
}

TEST(MsrunFlags, NodesFromTo) {
  const std::vector<std::string> four = {"--worker_num=8", "--local_worker_num=2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), four.begin(), four.end());
    return more;
  };
  const MsrunFlags flags = parse(with({"--nnodes=2:4", "--max_restarts=1"}));
  EXPECT_EQ(flags.least_nodes, 2);
  EXPECT_EQ(parse(with({"--nnodes=4"})).least_nodes, 0);
  EXPECT_THAT(refusal(with({"--nnodes=2:4"})), HasSubstr("needs --max_restarts"));
  EXPECT_THAT(refusal(with({"--nnodes=2:3"})), HasSubstr("are not the 8 of --worker_num"));
  for (const char* wrong :
       {"--nnodes=0:4", "--nnodes=5:4", "--nnodes=a", "--nnodes=1:", "--nnodes=:4"}) {
    EXPECT_THAT(refusal(with({wrong})), HasSubstr("must be N or MIN:MAX")) << wrong;
  }
}

TEST(MsrunFlags, TheLastOfTwoCounts) {
  EXPECT_EQ(parse({"--worker_num=2", "--worker_num=4"}).worker_num, 4);
}

TEST(MsrunFlags, ListOfTailedWorkers) {
  const MsrunFlags flags = parse({"--worker_num=4", "--join=True", "--tail_worker_log=0,3"});
  EXPECT_THAT(*flags.tail_worker_log, ElementsAre(0, 3));
}

TEST(MsrunFlags, DictionaryOfCores) {
  EXPECT_EQ(parse({R"(--bind_core={"device0":["0-1"]})"}).bind_core, R"({"device0":["0-1"]})");
}

TEST(MsrunFlags, EverythingWrongAtOnce) {
  const std::string text = refusal({"--worker_num=4", "--local_worker_num=5", "--master_port=80",
                                    "--join=maybe", "--cluster_time_out=0", "--node_rank=-2"});
  EXPECT_THAT(text, HasSubstr("--local_worker_num=5: must be 1 to worker_num (4)"));
  EXPECT_THAT(text, HasSubstr("--master_port=80: must be a whole number, 1024 to 65535"));
  EXPECT_THAT(text, HasSubstr("--join=maybe: must be True or False"));
  EXPECT_THAT(text, HasSubstr("--cluster_time_out=0: must be a whole number, at least 1"));
  EXPECT_THAT(text, HasSubstr("--node_rank=-2"));
}

TEST(MsrunFlags, RefusedWithTheReason) {
  EXPECT_THAT(refusal({"--worker_num=0"}), HasSubstr("--worker_num=0: must be a whole number"));
  EXPECT_THAT(refusal({"--worker_num=many"}), HasSubstr("--worker_num"));
  EXPECT_THAT(refusal({"--sim_level=1"}), HasSubstr("tessera plan"));
  EXPECT_THAT(refusal({"--sim_rank_id=0"}), HasSubstr("tessera plan"));
  EXPECT_THAT(refusal({"--tail_worker_log=0"}), HasSubstr("needs --join=True"));
  EXPECT_THAT(refusal({"--worker_num=2", "--join=True", "--tail_worker_log=2"}),
              HasSubstr("local workers 0 to 1"));
  EXPECT_THAT(refusal({"--worker_num=16", "--local_worker_num=8", "--node_rank=2"}),
              HasSubstr("make nodes 0 to 1"));
  EXPECT_THAT(refusal({"--join=True"}, /*with_script=*/false), HasSubstr("no script"));
}

TEST(MsrunFlags, AFlagWithoutAValueTakesNotTheNext) {
  for (const char* flag : {"--log_dir", "--master_addr", "--join", "--bind_core", "--worker_num",
                           "--worker_log_name", "--tail_worker_log"}) {
    const std::string name = flag;
    EXPECT_THAT(refusal({name + "=", "--join=True"}), HasSubstr(name + "=: has no value"));
    EXPECT_THAT(refusal({name, "", "--join=True"}), HasSubstr(name + "=: has no value"));
    EXPECT_THAT(refusal({name, "--join=True"}), HasSubstr("the next flag follows, --join=True"));
  }
  EXPECT_THAT(parse({"--rank_table_file=", "--join=True"}).no_effect, IsEmpty());
}

TEST(MsrunFlags, PathsAreExpanded) {
  ::setenv("TESSERA_TEST_FOLDER", "/tmp/x", 1);
  EXPECT_EQ(parse({"--log_dir=${TESSERA_TEST_FOLDER}/logs"}).log_dir, "/tmp/x/logs");
  EXPECT_THAT(refusal({"--log_dir=~nobody/logs"}), HasSubstr("--log_dir=~nobody/logs: begins"));
}

TEST(MsrunFlags, AMisspeltFlagIsNamedWithTheNearest) {
  const std::string text = refusal({"--worker_nun=8"});
  EXPECT_THAT(text, HasSubstr("--worker_nun"));
  EXPECT_THAT(text, HasSubstr("--worker_num"));
}

TEST(MsrunFlags, RankTableHasNoEffect) {
  EXPECT_THAT(parse({"--rank_table_file=hccl.json"}).no_effect, ElementsAre("--rank_table_file"));
}

TEST(MsrunFlags, HelpNamesEveryFlag) {
  const std::string help = parse({"--help"}).help;
  for (const char* flag :
       {"--worker_num", "--local_worker_num", "--master_addr", "--master_port", "--node_rank",
        "--log_dir", "--join", "--cluster_time_out", "--bind_core", "--sim_level", "--sim_rank_id",
        "--rank_table_file", "--worker_log_name", "--tail_worker_log", "Examples"}) {
    EXPECT_THAT(help, HasSubstr(flag));
  }
}

}  // namespace
}  // namespace tessera
