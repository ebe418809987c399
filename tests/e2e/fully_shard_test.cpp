// FSDP and HSDP train the same model as one rank: every degree, every policy, accumulation.

#include <gtest/gtest.h>

#include <map>

#include "tests/e2e/layout.h"

namespace tessera::test {
namespace {

using Param = std::tuple<std::string, Layout>;
class FullyShard : public testing::TestWithParam<Param> {};

TEST_P(FullyShard, EqualsOneRank) {
  const auto& [name, layout] = GetParam();
  const Config config = load_case(name, layout.set, layout.ranks);
  const auto run = train(config, layout.ranks, config.training.steps);
  expect_same_training(*run, one_rank(name), 1e-10);
}

INSTANTIATE_TEST_SUITE_P(
    Dense, FullyShard,
    testing::Combine(
        testing::ValuesIn(kDenseCases),
        testing::Values(
            Layout{"shard8", 8, {shard(8), local_batch(1)}},
            Layout{"shard4x2_never", 8, {shard(4), local_batch(1), policy("never")}},
            Layout{"shard2x4_always", 8, {shard(2), local_batch(1), policy("always")}},
            Layout{"shard1x8", 8, {shard(1), local_batch(1)}},
            Layout{"shard4_accumulate2", 4, {shard(-1), local_batch(1), policy("always")}},
            Layout{"shard4_never_accumulate2", 4, {shard(-1), local_batch(1), policy("never")}},
            Layout{"shard2x2_accumulate2_divided",
                   4,
                   {shard(2), local_batch(1), "parallelism.disable_gradient_division=false"}},
            Layout{"shard1x4_accumulate2", 4, {shard(1), local_batch(1)}},
            Layout{"shard2", 2, {shard(2), local_batch(2)}},
            Layout{"replicate2_accumulate4", 2, {shard(1), local_batch(1), policy("never")}})),
    case_and_layout_name);

TEST(FullyShardFloat32, EqualsOneRank) {
  const Config config = load_case("llama_adamw32", {shard(2), local_batch(1)}, 4);
  const auto run = train(config, 4, config.training.steps);
  expect_same_training(*run, one_rank("llama_adamw32"), 1e-5);
}

// Shapes that nothing divides: hidden 66, ffn 130, vocabulary 251, one kv head, a batch of 12.
const std::vector<std::string> kOdd = {
    "model.hidden_size=66",        "model.intermediate_size=131",   "model.vocab_size=257",
    "model.num_attention_heads=3", "model.num_key_value_heads=1",   "model.head_dim=22",
    "checkpoint.load_path=''",     "training.global_batch_size=12", "training.steps=4"};

Config odd_config(std::vector<std::string> set, int64_t ranks) {
  set.insert(set.begin(), kOdd.begin(), kOdd.end());
  return load_case("llama_sgd64", set, ranks);
}

class OddShapes : public testing::TestWithParam<Layout> {};

TEST_P(OddShapes, EqualsOneRank) {
  static const auto reference = train(odd_config({local_batch(2)}, 1), 1, 4);
  const Layout& layout = GetParam();
  const auto run = train(odd_config(layout.set, layout.ranks), layout.ranks, 4);
  expect_same_training(*run, *reference, 1e-10);
}

INSTANTIATE_TEST_SUITE_P(
    Worlds, OddShapes,
    testing::Values(Layout{"shard3", 3, {shard(3), local_batch(2)}},
                    Layout{"shard6", 6, {shard(6), local_batch(1)}},
                    Layout{"shard3x2", 6, {shard(3), local_batch(2), policy("never")}},
                    Layout{"shard2x3", 6, {shard(2), local_batch(1), policy("always")}}),
    layout_name);

TEST(Repeatability, SameFileTwiceIsBitwiseEqual) {
  const Config config = load_case("llama_adamw64", {shard(2), local_batch(1)}, 4);
  const auto first = train(config, 4, 5);
  const auto second = train(config, 4, 5);
  expect_identical_training(*second, *first);
}

}  // namespace
}  // namespace tessera::test
