// monitor.train_state: what single ranks saw, against what autograd makes of one micro-batch.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/e2e/layout.h"

namespace tessera::test {
namespace {

using Set = std::vector<std::string>;
using Json = nlohmann::json;

const Set kWatched = {
    "monitor.train_state={local_norm: [lm_head, layers.0.self_attn], "
    "device_norm: lm_head, local_loss: true, device_loss: true}",
    "training.steps=2", "training.global_batch_size=4"};

Json state_of(const Set& set, int64_t ranks, const StepMetrics** step = nullptr) {
  static std::vector<std::unique_ptr<RunRecord>> kept;
  kept.push_back(train(load_case("llama_sgd64", kWatched + set, ranks), ranks, 1));
  if (step != nullptr) *step = &kept.back()->steps.front();
  return Json::parse(kept.back()->steps.front().train_state);
}

// One micro-batch on one rank: its norms are those of the gradients, its loss is the step's.
TEST(TrainState, OfOneMicroBatchIsTheStep) {
  const Config config =
      load_case("llama_sgd64", kWatched + Set{local_batch(4), "training.max_norm=0.0"}, 1);
  const auto record = train(config, 1, 1);
  const Json state = Json::parse(record->steps.front().train_state);
  const Json& rank = state.at("ranks").at(0);
  EXPECT_NEAR(rank.at("local_loss").at(0).get<double>(), record->steps.front().loss, 1e-12);
  EXPECT_EQ(state.at("device_loss").get<double>(), record->steps.front().loss);
  const Json& norms = rank.at("local_norm");
  EXPECT_EQ(norms.size(), 5) << "lm_head, q, k, v, o";
  for (const auto& [name, values] : norms.items()) {
    ASSERT_EQ(values.size(), 1) << name;
    const double norm = record->gradients.at(name).norm().item<double>();
    EXPECT_NEAR(values[0].get<double>(), norm, 1e-12 * norm) << name;
  }
  EXPECT_EQ(rank.at("device_norm").size(), 1);
}

// Several micro-batches: losses sum to the step's; watching changes nothing.
TEST(TrainState, OfMicroBatches) {
  const StepMetrics* step = nullptr;
  const Json state = state_of({local_batch(1)}, 1, &step);
  const Json& losses = state.at("ranks").at(0).at("local_loss");
  ASSERT_EQ(losses.size(), 4);
  double sum = 0;
  for (const Json& loss : losses) sum += loss.get<double>();
  EXPECT_NEAR(sum, step->loss, 1e-10) << "all labels count here";
  const Json& norms = state.at("ranks").at(0).at("local_norm").at("lm_head.weight");
  EXPECT_EQ(norms.size(), 4);
  EXPECT_NE(norms[0], norms[1]);
  EXPECT_EQ(state.at("ranks").at(0).at("device_norm").at("lm_head.weight"), norms[3]);
}

TEST(TrainState, WatchingChangesNothing) {
  for (const Set& set : {Set{local_batch(1)}, Set{local_batch(1), "model.tie_word_embeddings=true",
                                                  "checkpoint.load_path=''"}}) {
    const Set plain = {"training.steps=2", "training.global_batch_size=4"};
    const auto watched = train(load_case("llama_sgd64", kWatched + set, 1), 1, 2);
    const auto unwatched = train(load_case("llama_sgd64", plain + set, 1), 1, 2);
    expect_same_training(*watched, *unwatched, 1e-13);
  }
}

// Every layout tells of the same micro-batches: a rank of a stage of what it holds.
TEST(TrainState, InEveryLayout) {
  const Json alone = state_of({local_batch(2)}, 1);
  const Json& expected = alone.at("ranks").at(0).at("local_norm").at("lm_head.weight");

  const Json stages = state_of({local_batch(2), "parallelism.pipeline_parallel=2",
                                "parallelism.pipeline_parallel_layers_per_stage=auto"},
                               2);
  const Json& first = stages.at("ranks").at(0);
  const Json& last = stages.at("ranks").at(1);
  EXPECT_TRUE(first.at("local_loss").empty()) << "the first stage has no loss";
  EXPECT_EQ(first.at("local_norm").size(), 4);
  EXPECT_EQ(last.at("local_norm").size(), 1);
  for (size_t m = 0; m < 2; ++m) {
    EXPECT_NEAR(last.at("local_norm").at("lm_head.weight")[m].get<double>(),
                expected[m].get<double>(), 1e-12);
  }
  // Data parallel: rank r has the micro-batch that was number r.
  const Json shards = state_of({local_batch(2), shard(2)}, 2);
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_NEAR(shards.at("ranks").at(rank).at("local_norm").at("lm_head.weight")[0].get<double>(),
                expected[rank].get<double>(), 1e-12);
  }
}

}  // namespace
}  // namespace tessera::test
