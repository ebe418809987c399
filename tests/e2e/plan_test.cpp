// What `tessera plan` says beforehand is what a run counts: elements of every rank, messages and
// bytes of a step over every axis.

#include "tessera/planner/plan.h"

#include <gtest/gtest.h>

#include "tessera/comm/threads/run_ranks.h"
#include "tessera/train/open_training_data.h"
#include "tessera/train/trainer.h"
#include "tests/e2e/layout.h"

namespace tessera::test {
namespace {

const std::vector<Axis> kAxes = {Axis::kFsdp, Axis::kEfsdp, Axis::kDpReplicate, Axis::kTp,
                                 Axis::kCp,   Axis::kEp,    Axis::kPp,          Axis::kEmbedding};
using AxisCounts = std::map<Axis, TrafficPlan>;

struct Counted {
  std::vector<AxisCounts> sent;   // [rank] in the second step
  std::vector<int64_t> elements;  // [rank] of the parameter table
};

AxisCounts snapshot(const DeviceMesh& mesh) {
  AxisCounts counts;
  for (const Axis axis : kAxes) {
    for (const auto& [operation, count] : mesh[axis].stats().operations) {
      counts[axis].operations[operation] = {count.calls, count.bytes};
    }
  }
  return counts;
}

Counted count(const Config& config, int64_t ranks) {
  const auto world_size = static_cast<size_t>(ranks);
  std::vector<AxisCounts> first(world_size), second(world_size);
  Counted counted{std::vector<AxisCounts>(world_size), std::vector<int64_t>(world_size)};
  TrainerOptions options;
  options.source = open_training_data(config);
  options.stop_after = 2;
  options.on_step = [&](const StepMetrics& step, const ParamTable& table, const DeviceMesh& mesh) {
    const auto rank = static_cast<size_t>(mesh.rank());
    (step.step == 1 ? first : second)[rank] = snapshot(mesh);
    counted.elements[rank] = 0;
    for (const auto& param : table.params()) {
      if (param->role != ParamRole::kRouterBias) counted.elements[rank] += param->value.numel();
    }
  };
  run_ranks(static_cast<int>(ranks),
            [&](const ProcessGroup& world) { Trainer(config, world, options).run(); });
  for (size_t rank = 0; rank < world_size; ++rank) {
    for (const auto& [axis, traffic] : second[rank]) {
      for (const auto& [operation, now] : traffic.operations) {
        const TrafficPlan::Count& before = first[rank][axis].operations[operation];
        if (now.bytes > before.bytes) {
          counted.sent[rank][axis].operations[operation] = {now.calls - before.calls,
                                                            now.bytes - before.bytes};
        }
      }
    }
  }
  return counted;
}

std::string text_of(const AxisCounts& counts) {
  std::string text;
  for (const auto& [axis, traffic] : counts) {
    for (const auto& [operation, count] : traffic.operations) {
      text += std::string(axis_name(axis)) + " " + operation + ": " + std::to_string(count.bytes) +
              " bytes in " + std::to_string(count.calls) + "\n";
    }
  }
  return text;
}

// Without axes that the measured run does not count by name, and without what sends nothing.
AxisCounts comparable(AxisCounts counts) {
  std::erase_if(counts, [](const auto& entry) {
    return std::find(kAxes.begin(), kAxes.end(), entry.first) == kAxes.end();
  });
  for (auto& [axis, traffic] : counts) {
    std::erase_if(traffic.operations, [](const auto& entry) { return entry.second.bytes == 0; });
  }
  return counts;
}

const std::string kUpperLayers = "lora_config.exclude_layers='layers\\.[01]$'";

struct PlannedLayout {
  std::string file;
  Layout layout;
};
std::ostream& operator<<(std::ostream& out, const PlannedLayout& planned) {
  return out << planned.file << " " << planned.layout;
}

class PlanAgainstRun : public testing::TestWithParam<PlannedLayout> {};

TEST_P(PlanAgainstRun, ElementsAndBytesAreExact) {
  const auto& [file, layout] = GetParam();
  const Config config = load_case(file, layout.set, layout.ranks);
  const Plan plan = make_plan(config, layout.ranks);
  const Counted counted = count(config, layout.ranks);
  for (int64_t rank = 0; rank < layout.ranks; ++rank) {
    const auto r = static_cast<size_t>(rank);
    EXPECT_EQ(plan.memory[r].parameters, counted.elements[r]) << "rank " << rank;
    EXPECT_EQ(text_of(comparable(plan.traffic[r])), text_of(counted.sent[r])) << "rank " << rank;
  }
}

std::string pp(int64_t degree) { return "parallelism.pipeline_parallel=" + std::to_string(degree); }
const std::string kAuto = "parallelism.pipeline_parallel_layers_per_stage=auto";
const std::string kLossParallel = "parallelism.enable_loss_parallel=true";

std::vector<std::string> with(std::vector<std::string> set, const std::vector<std::string>& more) {
  set.insert(set.end(), more.begin(), more.end());
  return set;
}
const std::vector<std::string> kFull = {"recompute.mode=full",
                                        "recompute.full_recompute_layer=[0-1, 3]"};
std::vector<std::string> select(const std::string& modules) {
  return {"recompute.mode=select", "recompute.select_module={" + modules + "}"};
}
// Tokens go to experts in turn: routing is even.
const std::vector<std::string> kExperts = {shard(-1), "parallelism.expert_parallel=2",
                                           "model.moe_router_force_expert_balance=true"};

const std::vector<std::string> kMtp = {
    "checkpoint.load_path=''", "model.num_nextn_predict_layers=1", "model.mtp_loss_factor=0.3"};
const std::vector<std::string> kTied = with(kMtp, {"model.tie_word_embeddings=true"});

INSTANTIATE_TEST_SUITE_P(
    Layouts, PlanAgainstRun,
    testing::Values(
        PlannedLayout{"llama_sgd64", {"one_rank", 1, {}}},
        PlannedLayout{"llama_sgd64", {"always", 4, {shard(4), local_batch(1), policy("always")}}},
        PlannedLayout{"llama_sgd64", {"never", 4, {shard(4), local_batch(1), policy("never")}}},
        PlannedLayout{"llama_sgd64",
                      {"standard", 4, {shard(4), local_batch(1), policy("default")}}},
        PlannedLayout{"llama_sgd64", {"hsdp", 4, {shard(2), local_batch(2)}}},
        PlannedLayout{"llama_sgd64", {"copies", 2, {shard(1), local_batch(4)}}},
        PlannedLayout{"llama_sgd64", {"uneven", 3, {shard(3), local_batch(1)}}},
        PlannedLayout{"qwen3_tied64", {"tied", 4, {shard(4), local_batch(1), policy("always")}}},
        PlannedLayout{"qwen3_tied64", {"tied_standard", 2, {shard(2), local_batch(2)}}},
        PlannedLayout{"llama_sgd64", {"tp2", 2, {shard(-1), tp(2), local_batch(4)}}},
        PlannedLayout{"llama_sgd64",
                      {"tp2_shard2", 4, {shard(-1), tp(2), local_batch(2), kLossParallel}}},
        PlannedLayout{"llama_sgd64", {"pp2", 2, {shard(-1), pp(2), kAuto, local_batch(2)}}},
        PlannedLayout{"llama_sgd64",
                      {"pp2v2",
                       4,
                       {shard(-1), pp(2), kAuto, local_batch(1),
                        "parallelism.pipeline_parallel_interleave_num=2"}}},
        PlannedLayout{"qwen3_tied64",
                      {"pp2_tp2_tied", 4, {shard(-1), pp(2), tp(2), kAuto, local_batch(2)}}},
        PlannedLayout{"qwen3_tied64",
                      {"pp2_shard2_tied_always",
                       4,
                       {shard(-1), pp(2), kAuto, local_batch(1), policy("always")}}},
        PlannedLayout{"llama_sgd64",
                      {"tp2_full", 2, with({shard(-1), tp(2), local_batch(4)}, kFull)}},
        PlannedLayout{"llama_sgd64",
                      {"tp2_select", 2,
                       with({shard(-1), tp(2), local_batch(4)},
                            select("self_attention.linear_qkv: [0], mlp: [1-2], "
                                   "self_attn.o_proj: [3], mlp.linear_fc1: [3]"))}},
        PlannedLayout{"olmo2_64", {"tp2", 2, {shard(-1), tp(2), local_batch(4)}}},
        PlannedLayout{"olmo2_64", {"tp4_full", 4, with({shard(-1), tp(4), local_batch(4)}, kFull)}},
        PlannedLayout{"gemma2_64", {"tp2", 2, {shard(-1), tp(2), local_batch(4)}}},
        PlannedLayout{"glm4_64", {"tp2_shard2", 4, {shard(-1), tp(2), local_batch(2)}}},
        PlannedLayout{"qwen3_moe64", {"ep2", 2, with({local_batch(4)}, kExperts)}},
        PlannedLayout{
            "qwen3_moe64",
            {"ep2_efsdp4_few_experts", 8,
             with({local_batch(1), "model.num_experts=4", "checkpoint.load_path=''"}, kExperts)}},
        PlannedLayout{"qwen3_moe_aux64",
                      {"ep2_tp2_full", 4, with(with({local_batch(4), tp(2)}, kExperts), kFull)}},
        PlannedLayout{"lora_qwen3_64", {"lora_tp2", 2, {shard(-1), tp(2)}}},
        PlannedLayout{"lora_qwen3_64", {"lora_shard4", 4, {shard(4), local_batch(2)}}},
        PlannedLayout{"lora_qwen3_64",
                      {"lora_upper_pp2_tp2_full", 4,
                       with({shard(-1), tp(2), pp(2), kAuto, local_batch(2), kUpperLayers,
                             "checkpoint.load_path=''"},
                            kFull)}},
        PlannedLayout{"lora_qwen3_moe64", {"lora_ep2", 2, with({local_batch(4)}, kExperts)}},
        PlannedLayout{
            "deepseek_v3_64",
            {"lora_mtp_tp2", 2,
             with({shard(-1), tp(2), local_batch(8), "lora_config.target_modules='.*'"}, kMtp)}},
        PlannedLayout{"deepseek_v3_64", {"tp2", 2, {shard(-1), tp(2), local_batch(8)}}},
        PlannedLayout{"deepseek_v3_64",
                      {"mtp", 2, with({shard(2), local_batch(4), policy("default")}, kMtp)}},
        PlannedLayout{"deepseek_v3_64",
                      {"mtp_always", 2, with({shard(2), local_batch(2), policy("always")}, kMtp)}},
        PlannedLayout{"deepseek_v3_64",
                      {"mtp_tied", 2, with({shard(2), local_batch(4), policy("default")}, kTied)}},
        PlannedLayout{
            "deepseek_v3_64",
            {"mtp_tied_always", 2, with({shard(2), local_batch(2), policy("always")}, kTied)}},
        PlannedLayout{"deepseek_v3_64",
                      {"mtp_pp2_shard2_always", 4,
                       with({shard(-1), pp(2), kAuto, local_batch(2), policy("always")}, kMtp)}},
        PlannedLayout{
            "deepseek_v3_64",
            {"mtp_tied_pp2_shard2", 4, with({shard(-1), pp(2), kAuto, local_batch(2)}, kTied)}},
        PlannedLayout{"deepseek_v3_64",
                      {"mtp_tied_pp2_shard2_always", 4,
                       with({shard(-1), pp(2), kAuto, local_batch(1), policy("always")}, kTied)}},
        PlannedLayout{"deepseek_v3_64",
                      {"mtp_tp2_shard2", 4, with({shard(-1), tp(2), local_batch(4)}, kMtp)}},
        PlannedLayout{"deepseek_v3_64",
                      {"mtp_cp2", 2,
                       with({shard(-1), local_batch(4), "parallelism.context_parallel=2",
                             "model.use_attn_mask_compression=true"},
                            kMtp)}}),
    [](const auto& info) { return info.param.file + "_" + info.param.layout.name; });

}  // namespace
}  // namespace tessera::test
