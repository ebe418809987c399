// Dropout drops the same elements on every layout.

#include <gtest/gtest.h>

#include <cmath>

#include "tests/e2e/layout.h"

namespace tessera::test {
namespace {

constexpr int64_t kSteps = 3;

Config load(std::vector<std::string> set, int64_t ranks) {
  set.insert(set.end(), {"training.steps=3", "model.hidden_dropout=0.1"});
  return load_case("llama_sgd64", set, ranks);
}

const RunRecord& dropped() {
  static const auto record = train(load({}, 1), 1, kSteps);
  return *record;
}

class Dropout : public testing::TestWithParam<Layout> {};

TEST_P(Dropout, EqualsOneRank) {
  const Layout& layout = GetParam();
  const auto run = train(load(layout.set, layout.ranks), layout.ranks, kSteps);
  expect_same_training(*run, dropped(), 1e-10);
}

const std::string kFull = "recompute={mode: full, full_recompute_layer: ['0-3']}";
const std::string kSelect =
    "recompute={mode: select, select_module: {self_attention: ['0-3'], mlp: ['0-2']}}";

INSTANTIATE_TEST_SUITE_P(
    Layouts, Dropout,
    testing::Values(
        Layout{"accumulate4", 1, {local_batch(2)}}, Layout{"full", 1, {kFull}},
        Layout{"shard2_select", 2, {shard(2), local_batch(2), kSelect}},
        Layout{"tp2", 2, {tp(2), local_batch(4)}},
        Layout{"cp2_full",
               2,
               {"parallelism.context_parallel=2", "model.use_attn_mask_compression=true",
                local_batch(4), kFull}},
        Layout{"pp2",
               2,
               {"parallelism.pipeline_parallel=2",
                "parallelism.pipeline_parallel_layers_per_stage=auto", local_batch(2)}},
        Layout{"tp2_cp2_pp2_full",
               8,
               {tp(2), "parallelism.context_parallel=2", "model.use_attn_mask_compression=true",
                "parallelism.pipeline_parallel=2",
                "parallelism.pipeline_parallel_layers_per_stage=auto", local_batch(2), kFull}}),
    layout_name);

TEST(DropoutRate, ChangesTheTraining) {
  const auto plain = train(load_case("llama_sgd64", {"training.steps=1"}, 1), 1, 1);
  EXPECT_GT(std::abs(plain->steps[0].loss - dropped().steps[0].loss), 1e-3);
}

}  // namespace
}  // namespace tessera::test
