// Tensor parallelism with sequence parallelism trains the same model as one rank.

#include <gtest/gtest.h>

#include "tests/e2e/layout.h"

namespace tessera::test {
namespace {

const std::string kLossParallel = "parallelism.enable_loss_parallel=true";

using Param = std::tuple<std::string, Layout>;
class TensorParallel : public testing::TestWithParam<Param> {};

TEST_P(TensorParallel, EqualsOneRank) {
  const auto& [name, layout] = GetParam();
  const Config config = load_case(name, layout.set, layout.ranks);
  const auto run = train(config, layout.ranks, config.training.steps);
  expect_same_training(*run, one_rank(name), 1e-10);
}

INSTANTIATE_TEST_SUITE_P(
    Dense, TensorParallel,
    testing::Combine(
        testing::ValuesIn(kDenseCases),
        testing::Values(
            Layout{"tp2", 2, {tp(2), local_batch(2), kLossParallel}},
            Layout{"tp4", 4, {tp(4), local_batch(2)}},  // two kv heads: copies
            Layout{"tp2_shard2_never", 4, {tp(2), local_batch(1), kLossParallel, policy("never")}},
            Layout{"tp2_replicate2_always", 4, {tp(2), local_batch(2), shard(1), policy("always")}},
            Layout{"tp4_shard2", 8, {tp(4), local_batch(1), kLossParallel, policy("always")}})),
    case_and_layout_name);

TEST(TensorParallelFloat32, EqualsOneRank) {
  const Config config = load_case("llama_adamw32", {tp(2), local_batch(1), kLossParallel}, 4);
  const auto run = train(config, 4, config.training.steps);
  expect_same_training(*run, one_rank("llama_adamw32"), 1e-5);
}

// Nothing divides the vocabulary; one kv head; three ranks; chunks of the loss.
const std::vector<std::string> kOdd = {"checkpoint.load_path=''",
                                       "model.vocab_size=257",
                                       "model.num_attention_heads=6",
                                       "model.num_key_value_heads=3",
                                       "model.head_dim=10",
                                       "model.intermediate_size=96",
                                       "model.attention_bias=true",
                                       "training.steps=4",
                                       "train_dataset.dataloader.config.seq_length=60",
                                       "model.seq_length=60"};

Config odd_config(std::vector<std::string> set, int64_t ranks) {
  set.insert(set.begin(), kOdd.begin(), kOdd.end());
  return load_case("llama_sgd64", set, ranks);
}

class OddTensorParallel : public testing::TestWithParam<Layout> {};

TEST_P(OddTensorParallel, EqualsOneRank) {
  static const auto reference = train(odd_config({local_batch(2)}, 1), 1, 4);
  const Layout& layout = GetParam();
  const auto run = train(odd_config(layout.set, layout.ranks), layout.ranks, 4);
  expect_same_training(*run, *reference, 1e-10);
}

INSTANTIATE_TEST_SUITE_P(
    Worlds, OddTensorParallel,
    testing::Values(
        Layout{"tp3", 3, {tp(3), local_batch(2), kLossParallel}},
        Layout{"tp6_copies", 6, {tp(6), local_batch(2), kLossParallel, "model.chunk_loss_num=3"}},
        Layout{"tp3_gathered", 3, {tp(3), local_batch(2), "model.chunk_loss_num=2"}},
        Layout{"tp3_shard2", 6, {tp(3), local_batch(2), kLossParallel, policy("never")}}),
    layout_name);

}  // namespace
}  // namespace tessera::test
