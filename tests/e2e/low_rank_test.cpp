// Low-rank adapters: what PEFT's formula gives, on every layout; what is frozen stays as it is;
// checkpoints of adapters go on bit for bit beside their base.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tessera/base/error.h"
#include "tessera/checkpoint/hf_export.h"
#include "tessera/checkpoint/safetensors.h"
#include "tessera/layout/model_spec.h"
#include "tessera/planner/plan.h"
#include "tessera/storage/adapter_config.h"
#include "tessera/storage/published_weights.h"
#include "tests/e2e/layout.h"
#include "tests/e2e/run_trainer.h"
#include "tests/support/case_path.h"
#include "tests/support/temp_dir.h"

namespace tessera::test {
namespace {

using Set = std::vector<std::string>;
using testing::HasSubstr;

const std::string kMask = "model.use_attn_mask_compression=true";
const std::string kContext = "parallelism.context_parallel=2";
const Set kPipeline = {"parallelism.pipeline_parallel=2",
                       "parallelism.pipeline_parallel_layers_per_stage=auto"};
const Set kChunks = kPipeline + Set{"parallelism.pipeline_parallel_interleave_num=2"};
const Set kWholeRecompute = {"recompute.mode=full", "recompute.full_recompute_layer=[\"0-3\"]"};

std::string ep(int64_t degree) { return "parallelism.expert_parallel=" + std::to_string(degree); }
std::string method(const std::string& name) {
  return "parallelism.context_parallel_method=" + name;
}
std::string lora(const std::string& key, const std::string& value) {
  return "lora_config." + key + "=" + value;
}

class LowRankReference : public testing::TestWithParam<std::tuple<std::string, Layout>> {};

TEST_P(LowRankReference, Matches) {
  const auto& [name, layout] = GetParam();
  const Config config = load_case(name, layout.set, layout.ranks);
  expect_matches_case(*train(config, layout.ranks, config.training.steps), name, 1e-9);
}

INSTANTIATE_TEST_SUITE_P(
    Dense, LowRankReference,
    testing::Combine(
        testing::Values("lora_qwen3_64"),
        testing::Values(Layout{"one", 1, {}}, Layout{"fsdp2", 2, {shard(2)}},
                        Layout{"fsdp4", 4, {shard(4), local_batch(2)}}, Layout{"tp2", 2, {tp(2)}},
                        Layout{"tp4_with_copied_kv_heads", 4, {tp(4)}}, Layout{"pp2", 2, kPipeline},
                        Layout{"pp2_chunks", 2, kChunks + Set{local_batch(1)}},
                        Layout{"ring", 2, {kContext, kMask}},
                        Layout{"ulysses", 2, {kContext, kMask, method("ulysses")}},
                        Layout{"recompute", 2, Set{shard(2)} + kWholeRecompute},
                        Layout{"mixed", 8, Set{shard(2), tp(2), local_batch(2)} + kPipeline})),
    case_and_layout_name);

INSTANTIATE_TEST_SUITE_P(
    Experts, LowRankReference,
    testing::Combine(testing::Values("lora_qwen3_moe64"),
                     testing::Values(Layout{"one", 1, {}},
                                     Layout{"fsdp4", 4, {shard(4), local_batch(2)}},
                                     Layout{"ep2", 2, {shard(2), ep(2)}},
                                     Layout{"ep4", 4, {shard(4), ep(4), local_batch(2)}},
                                     Layout{"tp2_ep2", 4, {shard(2), tp(2), ep(2)}},
                                     Layout{"pp2_ep2", 4, Set{shard(2), ep(2)} + kPipeline})),
    case_and_layout_name);

// Adapters where other runs have none: on the plain weights of a case, B not zero at the start.
Config adapted(const std::string& name, const Layout& layout, const Set& more) {
  const Set fresh = {lora("lora_b_std", "0.02"), lora("lora_rank", "3"), lora("lora_alpha", "5"),
                     local_batch(2)};
  return load_case(name, fresh + layout.set + more, layout.ranks);
}

struct Adapted {
  std::string name;  // of the case
  Set set;
  Layout layout;
};
std::ostream& operator<<(std::ostream& out, const Adapted& adapted) {
  return out << adapted.name << " " << adapted.layout.name;
}

class LowRankLayouts : public testing::TestWithParam<Adapted> {};

TEST_P(LowRankLayouts, TrainAsOneRank) {
  const auto& [name, set, layout] = GetParam();
  const auto one = train(adapted(name, {"one", 1, {}}, set), 1, 3);
  const auto run = train(adapted(name, layout, set), layout.ranks, 3);
  expect_same_training(*run, *one, 1e-10);
}

const std::string kAll = lora("target_modules", "'layers'");
const std::string kHead = lora("target_modules", "'lm_head$'");
const std::string kEverything = lora("target_modules", "'.*'");
const Set kPrediction = {kEverything, "checkpoint.load_path=''", "model.num_nextn_predict_layers=1",
                         "model.mtp_loss_factor=0.3"};
const std::string kUpper = lora("exclude_layers", "'layers\\.[012]$'");
const std::string kDropout = lora("lora_dropout", "0.2");
const std::string kNoExperts = lora("exclude_layers", "'experts\\.'");

INSTANTIATE_TEST_SUITE_P(
    All, LowRankLayouts,
    testing::Values(
        Adapted{"deepseek_v3_64", {kAll}, {"tp2_ep2", 4, {shard(2), tp(2), ep(2)}}},
        Adapted{"deepseek_v3_64", {kAll, "training.global_batch_size=6"}, {"fsdp3", 3, {shard(3)}}},
        Adapted{"qwen3_moe_aux64", {kAll}, {"pp2_ep2", 4, Set{shard(2), ep(2)} + kPipeline}},
        Adapted{"qwen2_64", {kAll, kUpper}, {"pp2", 2, kPipeline}},
        Adapted{"qwen2_64", {kAll, kUpper}, {"tp2", 2, {tp(2)}}},
        Adapted{"qwen3_tied64", {kAll, kDropout}, {"tp2", 4, {shard(2), tp(2)}}},
        Adapted{
            "qwen3_tied64", {kAll, kDropout}, {"ulysses", 2, {kContext, kMask, method("ulysses")}}},
        Adapted{"deepseek_v3_64", {kAll, kDropout, kNoExperts}, {"tp2", 2, {tp(2)}}},
        Adapted{"gpt_oss64", {kAll}, {"ep2_tp2", 4, {shard(2), tp(2), ep(2)}}},
        Adapted{"qwen2_64", {kHead}, {"tp2_pp2", 4, Set{tp(2)} + kPipeline}},
        Adapted{"llama_sgd64", {kEverything, kDropout}, {"tp2_fsdp2", 4, {shard(2), tp(2)}}},
        Adapted{"llama_sgd64",
                {kEverything, "model.chunk_loss_num=4"},
                {"tp2_no_loss_parallel", 2, {tp(2), "parallelism.enable_loss_parallel=false"}}},
        Adapted{"deepseek_v3_64", kPrediction, {"pp2_tp2", 4, Set{tp(2)} + kPipeline}},
        Adapted{"phi3_64", {kAll}, {"tp2_pp2", 4, Set{tp(2)} + kPipeline}}),
    [](const auto& info) {
      return info.param.name + "_" + std::to_string(info.index) + "_" + info.param.layout.name;
    });

TEST(LowRank, FrozenWeightsKeepTheirBitsAndTheirType) {
  const Config config = load_case("lora_qwen3_64", {shard(2)}, 2);
  const auto run = train(config, 2, 5);
  const auto before = train(config, 2, 1);
  size_t frozen = 0;
  for (const ParamSpec& spec : model_spec(config.model)) {
    if (!spec.frozen) continue;
    ++frozen;
    EXPECT_TRUE(at::equal(run->values.at(spec.name), before->values.at(spec.name))) << spec.name;
    const bool norm = is_norm(spec.role);
    EXPECT_EQ(run->values.at(spec.name).scalar_type(), norm ? at::kDouble : at::kFloat)
        << spec.name;
    EXPECT_FALSE(run->gradients.contains(spec.name)) << spec.name;
  }
  EXPECT_EQ(frozen, 47U);
}

Set saving(const std::filesystem::path& root) {
  return {"checkpoint.enable_save=true", "checkpoint.save_path='" + root.string() + "'",
          "checkpoint.save_interleaved_steps=2", "checkpoint.no_load_optim=false"};
}
std::string from(const std::filesystem::path& root) {
  return "checkpoint.load_path='" + root.string() + "'";
}

TEST(LowRank, RunsOfAdaptersAloneGoOnBitForBit) {
  const TempDir dir;
  for (const std::string alone : {"true", "false"}) {
    const auto root = dir.path() / alone;
    const Set set = saving(root) + Set{"checkpoint.save_trainable_only=" + alone};
    const auto whole = run_until(load_case("lora_qwen3_64", {shard(2)}, 2), 2, 4);
    run_until(load_case("lora_qwen3_64", Set{shard(2)} + set, 2), 2, 2);
    const auto rest = run_until(
        load_case("lora_qwen3_64", Set{shard(2)} + set + Set{from(root / "iteration_00000002")}, 2),
        2, 4);
    ASSERT_EQ(rest->steps.size(), 2U);
    EXPECT_EQ(rest->steps.back().loss, whole->steps.back().loss);
    for (const auto& [name, value] : whole->values) {
      EXPECT_TRUE(at::equal(rest->values.at(name), value)) << name;
    }
    // On another layout.
    const auto cut = run_until(
        load_case("lora_qwen3_64", Set{tp(2)} + set + Set{from(root / "iteration_00000002")}, 2), 2,
        4);
    ASSERT_EQ(cut->steps.size(), 2U);
    EXPECT_NEAR(cut->steps.back().loss, whole->steps.back().loss, 1e-10);
  }
}

TEST(LowRank, AdaptersOfAnotherBaseAreRefused) {
  const TempDir dir;
  const Set set = saving(dir.path() / "run") + Set{"checkpoint.save_trainable_only=true"};
  run_until(load_case("lora_qwen3_64", set, 1), 1, 2);
  const std::filesystem::path other = dir.path() / "other";
  std::filesystem::copy(case_path("lora_qwen3_64") / "model", other);
  std::fstream file(other / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\x11');
  file.close();
  const Set changed =
      set + Set{from(dir.path() / "run"), "checkpoint.base_load_path='" + other.string() + "'"};
  EXPECT_THAT([&] { run_until(load_case("lora_qwen3_64", changed, 1), 1, 4); },
              testing::ThrowsMessage<CheckpointError>(HasSubstr("of another model")));
}

// What a run of five steps leaves, exported in both ways.
TEST(LowRank, AreExportedAloneAndMerged) {
  const TempDir dir;
  const auto name = "lora_qwen3_64";
  const Set set = saving(dir.path() / "run") + Set{"checkpoint.save_trainable_only=true"};
  const auto run = run_until(load_case(name, Set{shard(2)} + set, 2), 2, 5);
  HfExportOptions options;
  options.checkpoint = dir.path() / "run";
  options.output = dir.path() / "out";
  options.dtype = DType::kFloat64;
  EXPECT_THAT([&] { export_to_hf(options); },
              testing::ThrowsMessage<ConfigError>(HasSubstr("--adapter")));

  options.adapters = HfExportOptions::Adapters::kAlone;
  export_to_hf(options);
  const SafetensorsFile ours(options.output / kAdapterWeights);
  const SafetensorsFile expected(case_path(name) / "expected_adapter.safetensors");
  ASSERT_EQ(ours.entries().size(), expected.entries().size());
  for (const auto& [tensor, entry] : expected.entries()) {
    const at::Tensor right = expected.read(tensor);
    EXPECT_LE((ours.read(tensor) - right).abs().max().item<double>(),
              1e-9 * right.norm().item<double>())
        << tensor;
  }
  EXPECT_EQ(read_adapter_config(options.output).lora_rank, 4);

  options.output = dir.path() / "merged";
  options.adapters = HfExportOptions::Adapters::kMerged;
  export_to_hf(options);
  const SafetensorsFile merged(options.output / "model.safetensors");
  const std::string module = "model.layers.1.mlp.up_proj.";
  const at::Tensor product =
      run->values.at(module + "lora_B.weight").mm(run->values.at(module + "lora_A.weight"));
  const at::Tensor right = run->values.at(module + "weight").to(at::kDouble) + 2.5 * product;
  EXPECT_LE((merged.read(module + "weight") - right).abs().max().item<double>(), 1e-14);
}

TEST(LowRank, TakeTheMemoryAndSendTheBytesOfThePlan) {
  for (const Layout& layout :
       {Layout{"one", 1, {}}, Layout{"fsdp4", 4, {shard(4), local_batch(2)}},
        Layout{"tp2", 2, {tp(2)}}, Layout{"pp2", 2, kPipeline + Set{local_batch(2)}},
        Layout{"upper", 1, {lora("exclude_layers", "'layers\\.[01]$'"), from("")}}}) {
    const Config config = load_case("lora_qwen3_64", layout.set, layout.ranks);
    const Plan plan = make_plan(config, layout.ranks);
    const Measured measured = measure_memory(config, layout.ranks);
    for (size_t rank = 0; rank < measured.peak.size(); ++rank) {
      EXPECT_EQ(measured.persistent[rank], plan.memory[rank].weights + plan.memory[rank].moments)
          << layout.name << " rank " << rank;
      EXPECT_NEAR(static_cast<double>(measured.peak[rank]),
                  static_cast<double>(plan.memory[rank].peak),
                  0.05 * static_cast<double>(measured.peak[rank]))
          << layout.name << " rank " << rank;
    }
  }
}

}  // namespace
}  // namespace tessera::test
