#include "tessera/planner/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tessera/base/error.h"
#include "tessera/config/load.h"
#include "tessera/layout/model_spec.h"
#include "tessera/planner/memory_plan.h"
#include "tessera/planner/pipeline_plan.h"
#include "tessera/planner/stage_units.h"
#include "tessera/planner/traffic/activation_traffic.h"
#include "tessera/planner/traffic/traffic_plan.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Groups = std::vector<std::vector<int64_t>>;

Config load(const std::string& name, const std::vector<std::string>& overrides = {}) {
  const ConfigResult result =
      load_config(std::string(TESSERA_SOURCE_DIR) + "/configs/" + name + ".yaml", overrides);
  EXPECT_TRUE(result.ok()) << format_issues(result.issues);
  return result.config;
}

Plan plan(const std::string& name, int64_t world, const std::vector<std::string>& overrides = {}) {
  return make_plan(load(name, overrides), world);
}

// --- the scenes of the specification
// ---------------------------------------------------------------

TEST(PlanScenes, FullySharded) {
  const Plan p = plan("fsdp", 8);
  EXPECT_EQ(p.dims, (ParallelDims{8, 1, 1, 8, 1, 1, 1}));
  EXPECT_EQ(p.batch, (BatchPlan{8, 1, 2, 16, 16}));
  EXPECT_EQ(p.dims.groups(Axis::kFsdp), (Groups{{0, 1, 2, 3, 4, 5, 6, 7}}));
}

TEST(PlanScenes, HybridSharded) {
  const Plan p = plan("hsdp", 16);
  EXPECT_EQ(p.dims, (ParallelDims{16, 1, 2, 8, 1, 1, 1}));
  EXPECT_EQ(p.dims.groups(Axis::kFsdp),
            (Groups{{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}}));
  EXPECT_EQ(p.dims.groups(Axis::kDpReplicate).front(), (std::vector<int64_t>{0, 8}));
}

TEST(PlanScenes, TensorParallel) {
  const Plan p = plan("tp", 8);
  EXPECT_EQ(p.dims, (ParallelDims{8, 1, 1, 4, 1, 2, 1}));
  EXPECT_EQ(p.dims.groups(Axis::kTp), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(p.dims.groups(Axis::kFsdp), (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}}));
}

TEST(PlanScenes, ContextParallel) {
  EXPECT_EQ(plan("cp_colossal", 8).dims, (ParallelDims{8, 1, 1, 4, 2, 1, 1}));
  EXPECT_EQ(plan("cp_colossal", 8).dims.fsdp(), 8);
  EXPECT_EQ(plan("cp_ulysses", 8).dims, (ParallelDims{8, 1, 1, 2, 4, 1, 1}));
  EXPECT_EQ(plan("cp_hybrid", 8).dims, (ParallelDims{8, 1, 1, 2, 4, 1, 1}));
}

TEST(PlanScenes, PipelinePlacedEvenly) {
  const Plan p = plan("pp_auto", 8);
  EXPECT_EQ(p.dims, (ParallelDims{8, 2, 1, 1, 1, 4, 1}));
  ASSERT_EQ(p.stages.size(), 2u);
  ASSERT_EQ(p.stages[0].chunks.size(), 2u);
  EXPECT_EQ(p.stages[0].chunks[1].virtual_stage, 2);
  EXPECT_EQ(p.stages[0].chunks[1].first_layer, 4);
  EXPECT_EQ(p.stages[1].chunks[1].last_layer, 7);
  ASSERT_TRUE(p.pipeline);
  EXPECT_NEAR(p.pipeline->idle_over_ideal, 1.0 / 16.0, 1e-12);  // (p - 1) / (v m)
  EXPECT_TRUE(p.pipeline->better_layers.empty());
}

TEST(PlanScenes, PipelinePlacedByHandIdlesAndABetterOneIsNamed) {
  const Plan p = plan("pp_list", 8);
  const auto& chunks = p.stages;
  EXPECT_TRUE(chunks[0].chunks[0].embedding);
  EXPECT_FALSE(chunks[0].chunks[0].head);
  EXPECT_TRUE(chunks[1].chunks[1].head);
  EXPECT_EQ(chunks[0].chunks[1].last_layer - chunks[0].chunks[1].first_layer, 4);
  ASSERT_TRUE(p.pipeline);
  EXPECT_NEAR(p.pipeline->idle_share[1], 0.57, 0.005);  // whatever the number of micro-batches
  EXPECT_EQ(p.pipeline->better_layers.size(), 2u);
  EXPECT_LT(p.pipeline->better_idle_over_ideal, 0.1);
}

TEST(PlanScenes, ExpertParallel) {
  const Plan small = plan("ep", 8);
  EXPECT_EQ(small.dims, (ParallelDims{8, 1, 1, 2, 1, 4, 2}));
  EXPECT_EQ(small.dims.efsdp(), 4);
  EXPECT_EQ(small.dims.groups(Axis::kEp), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(small.dims.groups(Axis::kEfsdp), (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  const Plan large = plan("ep_deredundancy", 16);
  EXPECT_EQ(large.dims, (ParallelDims{16, 1, 1, 8, 1, 2, 8}));
  EXPECT_EQ(large.dims.efsdp(), 2);
}

// --- what is held
// ------------------------------------------------------------------------------------

class PlanOfEveryScene : public testing::TestWithParam<std::pair<const char*, int64_t>> {};

// Every element has one owner in each replica, but copies of what tensor parallelism leaves whole.
TEST_P(PlanOfEveryScene, StagesHoldTheWholeModel) {
  const auto [name, world] = GetParam();
  const Config config = load(name);
  const Plan p = make_plan(config, world);
  EXPECT_EQ(p.parameters, count_parameters(model_spec(config.model)));
  int64_t sum = 0;
  for (const StagePlan& stage : p.stages) {
    for (const ChunkPlan& chunk : stage.chunks) sum += chunk.parameters;
  }
  EXPECT_EQ(sum, p.parameters);
  int64_t held = 0;
  for (const MemoryPlan& rank : p.memory) held += rank.parameters;
  if (p.dims.tp == 1) {
    EXPECT_EQ(held, p.parameters * p.dims.dp_replicate);
  } else {
    EXPECT_GT(held, p.parameters * p.dims.dp_replicate);
    EXPECT_LT(held, p.parameters * p.dims.dp_replicate * p.dims.tp);
  }
}

// In time of the processor, so that a loaded machine does not fail it.
TEST_P(PlanOfEveryScene, TakesNoSecond) {
  const auto [name, world] = GetParam();
  const Config config = load(name);
  const std::clock_t begin = std::clock();
  make_plan(config, world);
  EXPECT_LT(std::clock() - begin, CLOCKS_PER_SEC);
}

TEST_P(PlanOfEveryScene, TextAndJsonTellTheSame) {
  const auto [name, world] = GetParam();
  const Plan p = plan(name, world);
  const auto json = nlohmann::json::parse(to_json(p));
  EXPECT_EQ(json["layout"]["world"], world);
  EXPECT_EQ(json["ranks"].size(), static_cast<size_t>(world));
  EXPECT_EQ(json["memory_per_rank"].size(), static_cast<size_t>(world));
  EXPECT_EQ(json["groups"]["fsdp"], nlohmann::json(p.dims.groups(Axis::kFsdp)));
  EXPECT_EQ(json["groups"].contains("ep"), p.dims.ep > 1);
  EXPECT_EQ(json.contains("pipeline"), p.dims.pp > 1);
  const std::string text = to_text(p);
  EXPECT_THAT(text, HasSubstr(std::to_string(world) + " ranks = dp_replicate"));
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 48) << text;  // one screen
}

INSTANTIATE_TEST_SUITE_P(All, PlanOfEveryScene,
                         testing::Values(std::pair{"fsdp", 8}, std::pair{"hsdp", 16},
                                         std::pair{"tp", 8}, std::pair{"cp_colossal", 8},
                                         std::pair{"cp_ulysses", 8}, std::pair{"cp_hybrid", 8},
                                         std::pair{"pp_auto", 8}, std::pair{"pp_list", 8},
                                         std::pair{"ep", 8}, std::pair{"ep_deredundancy", 16},
                                         std::pair{"two_nodes", 16}, std::pair{"train_small", 8}),
                         [](const auto& info) { return std::string(info.param.first); });

// Ranks that hold the same are planned once; sizes here leave uneven and empty parts.
TEST(Plan, EveryRankIsAsIfPlannedAlone) {
  const std::vector<std::string> odd = {"model.vocab_size=263", "model.hidden_size=80",
                                        "model.head_dim=10", "model.intermediate_size=176"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), odd.begin(), odd.end());
    return more;
  };
  const std::vector<std::tuple<const char*, int64_t, std::vector<std::string>>> cases = {
      {"fsdp", 96, with({"training.global_batch_size=96"})},
      {"hsdp", 48, with({"parallelism.data_parallel_shard=12", "training.global_batch_size=48"})},
      {"tp", 24, with({"parallelism.tensor_parallel=4", "training.global_batch_size=12"})},
      {"cp_colossal", 8, {"parallelism.context_parallel_balance=contiguous"}},
      {"cp_hybrid", 8, {}},
      {"pp_auto", 24, with({"training.global_batch_size=24", "model.tie_word_embeddings=true"})},
      {"ep", 16, {"training.global_batch_size=16"}},
      {"ep_deredundancy", 16, {}},
  };
  for (const auto& [name, world, overrides] : cases) {
    const Config config = load(name, overrides);
    const Plan p = make_plan(config, world);
    const auto units = assign_units(model_units(config.model), plan_stages(config, p.dims));
    const PipelineSchedule schedule = proven_schedule(config, p.batch.micro_batches);
    ASSERT_EQ(p.memory.size(), static_cast<size_t>(world)) << name;
    for (int64_t rank = 0; rank < world; ++rank) {
      const auto r = static_cast<size_t>(rank);
      const auto pp = static_cast<size_t>(p.dims.index_on(Axis::kPp, rank));
      EXPECT_EQ(p.memory[r], plan_memory(config, p.dims, p.batch, schedule, units[pp], rank))
          << name << " rank " << rank;
      auto traffic = plan_traffic(config, p.dims, units[pp], p.batch.micro_batches, rank);
      add_activation_traffic(config, p.dims, p.batch, p.stages[pp], units[pp], rank, traffic);
      EXPECT_EQ(p.traffic[r], traffic) << name << " rank " << rank;
    }
  }
}

// A plan proves the schedule that it is made for: one whose list is wrong has no plan.
TEST(Plan, AScheduleThatIsWrongIsNotPlanned) {
  const Config config = load("pp_auto", {"training.global_batch_size=24"});
  PipelineSchedule schedule = proven_schedule(config, 4);
  EXPECT_NO_THROW(prove(schedule));
  std::swap(schedule.ranks[0].front(), schedule.ranks[0].back());
  EXPECT_THROW(prove(schedule), InternalError);
}

TEST(Plan, ALargeLayoutFitsAScreenToo) {
  const auto lines_of = [](const Plan& p) {
    std::istringstream text(to_text(p));
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  };
  const Plan sharded = plan("fsdp", 16384, {"training.global_batch_size=16384"});
  EXPECT_THAT(to_text(sharded), HasSubstr("dp_shard = fsdp = batch = loss: {0-16383}\n"));
  const Plan mixed =
      plan("pp_list", 16384,
           {"parallelism.pipeline_parallel=32", "parallelism.tensor_parallel=8",
            "parallelism.data_parallel_shard=32", "parallelism.pipeline_parallel_interleave_num=1",
            "parallelism.pipeline_parallel_layers_per_stage=auto", "model.num_hidden_layers=64",
            "training.global_batch_size=1024"});
  EXPECT_THAT(to_text(mixed), HasSubstr("dp_shard = fsdp: {0 8 … 248} {1 9 … 249}"));
  EXPECT_THAT(to_text(mixed), HasSubstr("… 512 groups\n"));
  EXPECT_THAT(to_text(mixed), HasSubstr("… 32 stages (all: --json)\n"));
  EXPECT_THAT(to_text(mixed), HasSubstr("stage 31: idle"));
  for (const Plan* p : {&sharded, &mixed}) {
    const std::vector<std::string> lines = lines_of(*p);
    EXPECT_LE(lines.size(), 56u) << to_text(*p);
    for (const std::string& line : lines) EXPECT_LE(line.size(), 160u) << line;
  }
}

TEST(PlanMemory, ExactBytesOfAWorkedExample) {
  // 3 ranks and a vocabulary of 257: ceil(257 / 3) = 86 rows on ranks 0 and 1, 85 on rank 2.
  const std::vector<std::string> tiny = {
      "model.vocab_size=257",      "model.hidden_size=8",         "model.intermediate_size=16",
      "model.num_hidden_layers=1", "model.num_attention_heads=2", "model.num_key_value_heads=1",
      "model.head_dim=4",          "training.global_batch_size=3"};
  const Plan p = plan("fsdp", 3, tiny);
  // rows x columns: embedding and head 257x8; q 8x8; k, v 4x8; o 8x8; gate, up 16x8; down 8x16;
  // three norms of 8.
  const auto rows = [](int64_t n, int64_t part) {
    const int64_t each = (n + 2) / 3;
    return std::min(n, (part + 1) * each) - std::min(n, part * each);
  };
  for (int64_t r = 0; r < 3; ++r) {
    const int64_t elements = 2 * rows(257, r) * 8 + 2 * rows(8, r) * 8 + 2 * rows(4, r) * 8 +
                             2 * rows(16, r) * 8 + rows(8, r) * 16 + 3 * rows(8, r);
    const MemoryPlan& memory = p.memory[static_cast<size_t>(r)];
    EXPECT_EQ(memory.parameters, elements);
    EXPECT_EQ(memory.weights, 4 * elements);
    EXPECT_EQ(memory.gradients, 4 * elements);
    EXPECT_EQ(memory.moments, 8 * elements);
  }
  // Two units at a time: the layer, then norm and head.
  const int64_t layer = 2 * 8 * 8 + 2 * 4 * 8 + 3 * 16 * 8 + 2 * 8;
  EXPECT_EQ(p.memory[0].gathered, 4 * (layer + 257 * 8 + 8));
}

TEST(PlanMemory, DtypesAndOptimizers) {
  const auto memory = [](const std::vector<std::string>& overrides) {
    return plan("fsdp", 8, overrides).memory[0];
  };
  const MemoryPlan adam = memory({});
  EXPECT_EQ(adam.weights, 4 * adam.parameters);
  EXPECT_EQ(adam.moments, 8 * adam.parameters);
  EXPECT_EQ(memory({"optimizer.type=SGD"}).moments, 0);
  EXPECT_EQ(memory({"optimizer.type=SGD", "optimizer.momentum=0.9"}).moments, adam.moments / 2);
  EXPECT_EQ(memory({"optimizer.amsgrad=true"}).moments, adam.moments / 2 * 3);
  const MemoryPlan half = memory({"model.compute_dtype=bfloat16"});
  EXPECT_EQ(half.weights, adam.weights);  // masters
  EXPECT_LT(half.gathered, adam.gathered * 6 / 10);
  const MemoryPlan twice = memory({"model.params_dtype=float64", "model.compute_dtype=float64"});
  EXPECT_EQ(twice.weights, 2 * adam.weights);
  const MemoryPlan kept = memory({"parallelism.reshard_after_forward_policy=never"});
  EXPECT_GT(kept.gathered, 4 * adam.gathered / 2);
  EXPECT_EQ(plan("fsdp", 1).memory[0].gathered, 0);  // the masters themselves
}

TEST(PlanMemory, FewKvHeadsAreCopied) {
  const Plan cut = plan("tp", 8, {"parallelism.tensor_parallel=4", "model.num_key_value_heads=4"});
  const Plan copied =
      plan("tp", 8, {"parallelism.tensor_parallel=4", "model.num_key_value_heads=2"});
  // k and v: 4 heads over 4 ranks are as much a rank as 2 heads with two copies each.
  EXPECT_EQ(cut.memory[0].parameters, copied.memory[0].parameters);
}

TEST(PlanMemory, ATiedEmbeddingIsCopiedToTheLastStage) {
  const std::vector<std::string> tied = {"model.tie_word_embeddings=true"};
  const Plan one = plan("fsdp", 8, tied);
  const Plan two = plan("pp_auto", 8, tied);
  const int64_t embedding = 258 * 256;
  EXPECT_EQ(one.parameters, two.parameters);
  int64_t sum = 0;
  for (const StagePlan& stage : two.stages) {
    for (const ChunkPlan& chunk : stage.chunks) sum += chunk.parameters;
  }
  EXPECT_EQ(sum, two.parameters + embedding);
}

// --- what is sent
// ------------------------------------------------------------------------------------

// All sizes divide by the shard degree, so the closed forms hold: P parameters of e bytes in units
// of which all are gathered `g` times a step, F shards, m micro-batches.
struct Closed {
  int64_t parameters, head;  // of the model; of the unit with the head
};

Closed closed(const Config& config) {
  const int64_t h = config.model.hidden_size;
  return {count_parameters(model_spec(config.model)), config.model.vocab_size * h + h};
}

std::vector<std::string> divisible(const std::string& policy) {
  return {"model.vocab_size=256", "parallelism.reshard_after_forward_policy=" + policy};
}

TEST(PlanTraffic, GathersAndReductionsOfEachPolicy) {
  const int64_t m = 2;
  const auto sent = [&](const std::string& policy) {
    return plan("fsdp", 8, divisible(policy)).traffic[3].at(Axis::kFsdp);
  };
  const auto [P, head] = closed(load("fsdp", divisible("always")));
  const int64_t units = 10;
  const TrafficPlan always = sent("always");
  EXPECT_EQ(always.operations.at("all_gather").bytes, 7 * (P / 8) * 4 * 2 * m);
  EXPECT_EQ(always.operations.at("all_gather").calls, units * 2 * m);
  EXPECT_EQ(always.operations.at("reduce_scatter").bytes, 7 * (P / 8) * 4 * m);
  EXPECT_EQ(always.operations.at("reduce_scatter").calls, units * m);
  const TrafficPlan standard = sent("default");  // the head's backward follows its forward
  EXPECT_EQ(standard.operations.at("all_gather").bytes, 7 * ((2 * P - head) / 8) * 4 * m);
  EXPECT_EQ(standard.operations.at("reduce_scatter").bytes, 7 * (P / 8) * 4 * m);
  const TrafficPlan never = sent("never");
  EXPECT_EQ(never.operations.at("all_gather").bytes, 7 * (P / 8) * 4);
  EXPECT_EQ(never.operations.at("reduce_scatter").bytes, 7 * (P / 8) * 4 * m);
}

TEST(PlanTraffic, ReplicasSumTheirShardsOnceAStep) {
  const Plan p = plan("hsdp", 16, divisible("always"));
  const int64_t P = p.parameters;
  EXPECT_EQ(p.traffic[0].at(Axis::kDpReplicate).operations.at("all_reduce").bytes, P / 8 * 4);
  EXPECT_EQ(p.traffic[0], p.traffic[8]);
}

TEST(PlanTraffic, APipelineGathersAndReducesOnceAStep) {
  const Plan p = plan("two_nodes", 16, {"model.vocab_size=256"});
  const TrafficPlan& sent = p.traffic[0].at(Axis::kFsdp);
  EXPECT_EQ(sent.operations.at("all_gather").calls, 5);  // embedding and four layers
  EXPECT_EQ(sent.operations.at("reduce_scatter").calls, 5);
}

TEST(PlanTraffic, HalfPrecisionHalvesTheGathers) {
  const auto gathered = [](const std::string& dtype) {
    const Plan p =
        plan("fsdp", 8, {"model.compute_dtype=" + dtype, "model.layernorm_compute_dtype=" + dtype});
    return p.traffic[0].at(Axis::kFsdp).operations.at("all_gather").bytes;
  };
  EXPECT_EQ(2 * gathered("bfloat16"), gathered("float32"));
}

TEST(PlanTraffic, TensorParallelLayersAndLoss) {
  const int64_t t = 2, m = 4, tokens = 256, h = 256, layers = 8, e = 4;
  const int64_t part = (t - 1) * (tokens / t) * h * e;  // what one gather or scatter sends
  const auto sent = [&](const char* loss_parallel) {
    return plan("tp", 8,
                {"model.vocab_size=256",
                 std::string("parallelism.enable_loss_parallel=") + loss_parallel})
        .traffic[0]
        .at(Axis::kTp)
        .operations;
  };
  const auto cut = sent("true");
  EXPECT_EQ(cut.at("all_gather").bytes, m * part * (6 * layers + 2));
  EXPECT_EQ(cut.at("reduce_scatter").bytes, m * part * (4 * layers + 2));
  // Three numbers a token and micro-batch; a step's sum of the norms' gradients, cut over fsdp.
  const int64_t norms = (2 * layers + 1) * (h / 4);
  EXPECT_EQ(cut.at("all_reduce").bytes, m * 3 * tokens * e + norms * e);
  const auto whole = sent("false");
  EXPECT_EQ(whole.at("all_gather").bytes, cut.at("all_gather").bytes + m * 128 * tokens * e);
  EXPECT_EQ(whole.at("all_reduce").bytes, norms * e);
}

TEST(PlanTraffic, EveryBoundaryOfAPipelineIsCrossedTwice) {
  const Plan p = plan("pp_auto", 8);  // 4 virtual stages, 8 micro-batches, tp 4
  const int64_t bytes = 256 / 4 * 256 * 4;
  int64_t sum = 0;
  for (int64_t rank = 0; rank < 8; rank += 4) {
    sum += p.traffic[static_cast<size_t>(rank)].at(Axis::kPp).operations.at("send").bytes;
  }
  EXPECT_EQ(sum, 2 * 3 * 8 * bytes);
}

TEST(PlanTraffic, OneRankSendsNothing) { EXPECT_TRUE(plan("fsdp", 1).traffic[0].empty()); }

// --- idle time
// ------------------------------------------------------------------------------------------

TEST(PlanPipeline, AnyNumberOfMicroBatches) {
  const auto idle = [](int64_t micro_batches) {
    return plan("pp_auto", 8, {"training.global_batch_size=" + std::to_string(micro_batches)})
        .pipeline->idle_over_ideal;
  };
  EXPECT_NEAR(idle(5), 1.0 / 10.0, 1e-12);
  EXPECT_NEAR(idle(1), 1.0, 1e-12);
}

// --- data
// -------------------------------------------------------------------------------------------------

TEST(PlanData, MissingFilesAreNamedNotThrown) {
  const Plan p = plan("fsdp", 8, {"train_dataset.dataloader.config.data_path=[/no/such/tokens]"});
  EXPECT_THAT(p.data.problem, HasSubstr("/no/such/tokens"));
  EXPECT_THAT(to_text(p), HasSubstr("/no/such/tokens"));
}

TEST(PlanBatch, TheFloorIsShown) {
  const Plan p = plan("fsdp", 8, {"training.global_batch_size=20"});
  EXPECT_EQ(p.batch.effective_batch, 16);
  EXPECT_THAT(to_text(p), HasSubstr("20 were asked: floor(20 / (8 x 1)) = 2 micro-batches"));
}

}  // namespace
}  // namespace tessera
