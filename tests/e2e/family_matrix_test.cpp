// Windows, sinks, caps and experts of every family in what is harder to cut: pipelines of four
// stages with chunks, grids of four for context, experts over three and four ranks, recomputation,
// packed documents, and these mixed. Each equals one rank.

#include <gtest/gtest.h>

#include <map>

#include "tests/e2e/layout.h"

namespace tessera::test {
namespace {

using Sets = std::vector<std::string>;

constexpr int64_t kSteps = 2;
const Sets kShort = {"training.steps=2"};

const Sets kPacked = {
    "train_dataset.dataloader.column_names=[input_ids, labels, loss_mask, position_ids, "
    "actual_seq_len]",
    "train_dataset.dataloader.config.reset_position_ids=true",
    "train_dataset.dataloader.config.reset_attention_mask=true",
    "train_dataset.dataloader.config.eod_mask_loss=true",
    "train_dataset.dataloader.config.create_compressed_eod_mask=true",
    "train_dataset.dataloader.config.eod_pad_length=128"};

// Twelve layers of initial values, with a window as the family's own files have it.
const std::string kW = "sliding_attention", kF = "full_attention";
Sets twelve(const std::string& name) {
  Sets set = {"checkpoint.load_path=''", "model.num_hidden_layers=12"};
  std::string types;
  for (int64_t layer = 0; layer < 12; ++layer) {
    const bool full = name.starts_with("gemma3")  ? layer % 3 == 2
                      : name.starts_with("olmo3") ? layer % 4 == 3
                                                  : layer % 2 == 1;
    types += (layer > 0 ? ", " : "") + (full ? kF : kW);
  }
  if (name != "mistral_window64") set.push_back("model.layer_types=[" + types + "]");
  return set;
}

// One rank, with what the layout may not change.
const RunRecord& reference(const std::string& name, const Sets& set) {
  static std::map<std::string, std::unique_ptr<RunRecord>> records;
  std::string key = name;
  for (const std::string& value : set) key += "\n" + value;
  auto& record = records[key];
  if (!record) record = train(load_case(name, set + kShort, 1), 1, kSteps);
  return *record;
}

void expect_one_rank(const std::string& name, const Sets& model, const Layout& layout) {
  const Config config = load_case(name, model + layout.set + kShort, layout.ranks);
  expect_same_training(*train(config, layout.ranks, kSteps), reference(name, model), 1e-10);
}

Sets pp(int64_t stages, int64_t chunks, Sets more) {
  more.push_back("parallelism.pipeline_parallel=" + std::to_string(stages));
  more.push_back("parallelism.pipeline_parallel_interleave_num=" + std::to_string(chunks));
  more.push_back("parallelism.pipeline_parallel_layers_per_stage=auto");
  return more;
}
Sets cp(int64_t degree, const std::string& method, Sets more) {
  more.push_back("parallelism.context_parallel=" + std::to_string(degree));
  more.push_back("parallelism.context_parallel_method=" + method);
  return more;
}
Sets ep(int64_t degree, Sets more) {
  more.push_back("parallelism.expert_parallel=" + std::to_string(degree));
  return more;
}

const std::string kMask = "model.use_attn_mask_compression=true";
const std::string kInner = "parallelism.ulysses_degree_in_cp=2";
const std::string kRing = "parallelism.context_parallel_exchange=ring";
const std::string kContiguous = "parallelism.context_parallel_balance=contiguous";
const std::string kAgain = "recompute={mode: full, full_recompute_layer: ['0-1']}";

const Layout kRing4{"cp4_ring", 4, cp(4, "colossal", {kRing, local_batch(2)})};
const Layout kContiguous4{"cp4_contiguous", 4,
                          cp(4, "colossal", {kRing, kContiguous, local_batch(2)})};
const Layout kHeads4{"cp4_ulysses", 4, cp(4, "ulysses", {local_batch(2)})};
const Layout kHybrid4{"cp4_hybrid", 4, cp(4, "hybrid", {kInner, kRing, local_batch(2)})};
const Layout kAgain2{"recomputed_tp2_cp2", 4, cp(2, "colossal", {kAgain, tp(2), local_batch(2)})};
const Layout kMixed{"pp2_cp2_tp2", 8, pp(2, 2, cp(2, "colossal", {tp(2), local_batch(2)}))};

const std::vector<std::string> kWindowed = {"mistral_window64", "gemma2_64", "gemma3_64",
                                            "gpt_oss64", "olmo3_64"};

class DeepFamilies : public testing::TestWithParam<std::string> {};

TEST_P(DeepFamilies, FourStagesOfThreeChunksAreOneRank) {
  const Sets model = twelve(GetParam());
  expect_one_rank(GetParam(), model, {"pp4", 4, pp(4, 3, {local_batch(1)})});
  expect_one_rank(GetParam(), model, {"pp4_shard2", 8, pp(4, 3, {shard(2), local_batch(1)})});
}

INSTANTIATE_TEST_SUITE_P(Windowed, DeepFamilies, testing::ValuesIn(kWindowed),
                         [](const auto& info) { return info.param; });

class FamilyMatrix : public testing::TestWithParam<std::tuple<std::string, Layout>> {};

TEST_P(FamilyMatrix, IsOneRank) {
  const auto& [name, layout] = GetParam();
  expect_one_rank(name, {kMask}, layout);
}

INSTANTIATE_TEST_SUITE_P(Windowed, FamilyMatrix,
                         testing::Combine(testing::ValuesIn(kWindowed),
                                          testing::Values(kRing4, kContiguous4, kHeads4, kHybrid4,
                                                          kAgain2, kMixed)),
                         case_and_layout_name);

// One kv head, a window of 13 tokens in pieces of 16 and 8, odd widths, a tied head.
INSTANTIATE_TEST_SUITE_P(Odd, FamilyMatrix,
                         testing::Combine(testing::Values("gemma3_odd64"),
                                          testing::Values(kRing4, kContiguous4, kHeads4, kHybrid4,
                                                          kAgain2, kMixed)),
                         case_and_layout_name);

INSTANTIATE_TEST_SUITE_P(Full, FamilyMatrix,
                         testing::Combine(testing::Values("phi3_64", "phi3_longrope64", "olmo2_64",
                                                          "glm4_64", "llama_dynamic64",
                                                          "llama_linear64"),
                                          testing::Values(kRing4, kHeads4, kHybrid4, kMixed)),
                         case_and_layout_name);

INSTANTIATE_TEST_SUITE_P(
    SixExperts, FamilyMatrix,
    testing::Combine(testing::Values("mixtral_64", "gpt_oss64"),
                     testing::Values(Layout{"ep2_cp2", 2,
                                            ep(2, cp(2, "colossal", {local_batch(4)}))},
                                     Layout{"pp2_ep2_tp2", 8,
                                            pp(2, 2, ep(2, {tp(2), shard(-1), local_batch(2)}))})),
    case_and_layout_name);

INSTANTIATE_TEST_SUITE_P(
    EightExperts, FamilyMatrix,
    testing::Combine(
        testing::Values("glm4_moe64"),
        testing::Values(Layout{"ep4", 4, ep(4, {shard(-1), local_batch(2)})},
                        Layout{"ep4_tp2", 8, ep(4, {tp(2), shard(-1), local_batch(1)})},
                        Layout{"ep2_cp2", 2, ep(2, cp(2, "colossal", {local_batch(4)}))},
                        Layout{"pp2_ep2_tp2", 8,
                               pp(2, 2, ep(2, {tp(2), shard(-1), local_batch(2)}))})),
    case_and_layout_name);

// Three ranks share six experts and a batch of nine samples.
TEST(FamilyExperts, OverThreeRanksAreOneRank) {
  const Sets nine = {kMask, "training.global_batch_size=9", local_batch(3)};
  for (const char* name : {"mixtral_64", "gpt_oss64"}) {
    SCOPED_TRACE(name);
    expect_one_rank(name, nine, {"ep3", 3, ep(3, {shard(-1)})});
  }
}

class PackedFamilies : public testing::TestWithParam<std::tuple<std::string, Layout>> {};

TEST_P(PackedFamilies, AreOneRank) {
  const auto& [name, layout] = GetParam();
  expect_one_rank(name, kPacked, layout);
}

INSTANTIATE_TEST_SUITE_P(
    Windowed, PackedFamilies,
    testing::Combine(testing::Values("mistral_window64", "gemma2_64", "gemma3_odd64", "gpt_oss64"),
                     testing::Values(kRing4, kHeads4, kHybrid4, kAgain2, kMixed)),
    case_and_layout_name);

}  // namespace
}  // namespace tessera::test
