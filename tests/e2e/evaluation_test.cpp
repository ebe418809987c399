// Evaluation: its loss is other software's, the same in every layout, and training does not notice.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/comm/threads/run_ranks.h"
#include "tessera/train/open_training_data.h"
#include "tessera/train/run.h"
#include "tests/e2e/layout.h"
#include "tests/e2e/run_trainer.h"
#include "tests/support/case_path.h"
#include "tests/support/near_rel.h"
#include "tests/support/temp_dir.h"

namespace tessera::test {
namespace {

using Sets = std::vector<std::string>;

// The training data of a run as a set to evaluate on, in the order of training.
std::string same_data(const std::string& name, int64_t samples) {
  return "eval_dataset={dataloader: {sizes: [0, " + std::to_string(samples) +
         ", 0], config: {data_path: ['" + (case_path(name) / "data/train").string() + "']}}}";
}

std::unique_ptr<RunRecord> run(const Config& config, int64_t ranks, int64_t steps) {
  TrainerOptions options;
  options.eval_sets = open_eval_sets(config);
  return run_until(config, ranks, steps, options);
}

const Sets kEvery = {"training.eval_interval=1"};

// With a rate of 0 the weights stay: the evaluation of the first batch has the loss of step 1 that
// other software computed.
TEST(Evaluation, LossIsThatOfOtherSoftware) {
  for (const char* name : {"llama_sgd64", "qwen3_eod64", "gemma3_64"}) {
    const Config config =
        load_case(name,
                  kEvery + Sets{same_data(name, 80), "training.eval_iters=1", "training.steps=1",
                                "lr_scheduler.learning_rate=0"},
                  1);
    const auto record = run(config, 1, 1);
    std::ifstream file(case_path(name) / "expected.jsonl");
    std::string line;
    std::getline(file, line);
    const auto expected = nlohmann::json::parse(line);
    const EvalMetrics& found = record->steps.at(0).evaluations.at(0);
    EXPECT_NEAR_REL(found.loss, expected.at("loss").get<double>(), 1e-9) << name;
    EXPECT_EQ(found.tokens, record->steps[0].tokens) << name;
    EXPECT_NEAR_REL(found.perplexity, std::exp(found.loss), 1e-12);
    EXPECT_EQ(found.name, "valid");
  }
}

// The first batch in float32, as transformers computes it (benchmarks/evaluation_compare.py
// --keep).
TEST(Evaluation, LossInFloat32IsThatOfTransformers) {
  const Sets float32 = {"model.params_dtype=float32", "model.embedding_params_dtype=float32",
                        "model.compute_dtype=float32", "model.layernorm_compute_dtype=float32",
                        "model.rotary_dtype=float32"};
  const Config config = load_case(
      "llama_sgd64", float32 + Sets{same_data("llama_sgd64", 80), "training.eval_iters=1"}, 1);
  std::ifstream file(case_path("llama_sgd64") / "expected_float32.json");
  const auto expected = nlohmann::json::parse(file);
  const EvalMetrics found = run_evaluation(config, {}).at(0);
  EXPECT_NEAR_REL(found.loss, expected.at("loss").get<double>(), 1e-5);
  EXPECT_EQ(found.tokens, expected.at("tokens").get<int64_t>());
}

Sets pp(int64_t stages, int64_t chunks) {
  return {"parallelism.pipeline_parallel=" + std::to_string(stages),
          "parallelism.pipeline_parallel_interleave_num=" + std::to_string(chunks),
          "parallelism.pipeline_parallel_layers_per_stage=auto"};
}
Sets cp(int64_t degree, const std::string& method) {
  return {"parallelism.context_parallel=" + std::to_string(degree),
          "parallelism.context_parallel_method=" + method, "model.use_attn_mask_compression=true"};
}

struct Case {
  std::string name;
  Layout layout;
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.name << " " << c.layout.name;
}

class EvaluationLayouts : public testing::TestWithParam<Case> {};

// 77 samples: the last batch is not full.
TEST_P(EvaluationLayouts, AreOneRank) {
  const auto& [name, layout] = GetParam();
  const Sets set = kEvery + Sets{same_data(name, 77)};
  const auto loss_of = [&](const Sets& more, int64_t ranks) {
    const auto record = run(load_case(name, set + more, ranks), ranks, 2);
    return record->steps.at(1).evaluations.at(0);
  };
  const EvalMetrics one = loss_of({}, 1);
  const EvalMetrics here = loss_of(layout.set, layout.ranks);
  EXPECT_NEAR_REL(here.loss, one.loss, 1e-10);
  EXPECT_EQ(here.tokens, one.tokens);
  EXPECT_EQ(here.samples, 77);
}

INSTANTIATE_TEST_SUITE_P(
    All, EvaluationLayouts,
    testing::Values(
        Case{"llama_sgd64", {"fsdp", 4, {shard(4), local_batch(2)}}},
        Case{"llama_sgd64", {"mixed", 8, pp(2, 1) + Sets{shard(2), tp(2), local_batch(2)}}},
        Case{"llama_sgd64", {"chunks", 2, pp(2, 2) + Sets{local_batch(2)}}},
        Case{"llama_sgd64", {"one_chunks", 1, pp(1, 2) + Sets{local_batch(2)}}},
        Case{"llama_sgd64", {"ring", 2, cp(2, "colossal") + Sets{local_batch(2)}}},
        Case{"llama_sgd64", {"ulysses", 2, cp(2, "ulysses") + Sets{local_batch(2)}}},
        Case{"qwen3_moe64", {"ep", 4, {"parallelism.expert_parallel=4", shard(4), local_batch(2)}}},
        Case{"deepseek_v3_64", {"tp", 2, {tp(2), local_batch(4)}}},
        Case{"gemma3_64", {"tp", 2, {tp(2), local_batch(4)}}}),
    [](const auto& info) { return info.param.name + "_" + info.param.layout.name; });

// Training does not notice: not its losses, not its weights, to the last bit.
TEST(Evaluation, MovesNothing) {
  struct Run {
    std::string name;
    int64_t ranks;
    Sets set;
  };
  const std::vector<Run> runs = {
      {"llama_sgd64", 2, {"model.hidden_dropout=0.2", shard(2), local_batch(2)}},
      {"llama_sgd64", 2, pp(2, 2) + Sets{"model.hidden_dropout=0.2", local_batch(2)}},
      {"qwen3_moe64", 2, {"parallelism.expert_parallel=2", shard(2), local_batch(2)}},
      {"deepseek_v3_64",
       2,
       {tp(2), local_batch(4), "recompute.mode=full", "recompute.full_recompute_layer=[0-3]"}},
  };
  for (const Run& r : runs) {
    const Sets set = r.set + Sets{"training.steps=3"};
    const auto without = run_until(load_case(r.name, set, r.ranks), r.ranks, 3);
    const auto with =
        run(load_case(r.name, set + kEvery + Sets{same_data(r.name, 10)}, r.ranks), r.ranks, 3);
    EXPECT_EQ(with->steps.at(2).evaluations.size(), 1);
    expect_identical_training(*with, *without);
  }
}

// The peak of a run is that of its training steps: a batch of an evaluation may lie beside what the
// loader reads ahead, no more.
TEST(Evaluation, NeedsNoMoreMemory) {
  for (const auto& [ranks, set] : {std::pair{int64_t{2}, Sets{shard(2), local_batch(2)}},
                                   std::pair{int64_t{2}, pp(2, 2) + Sets{local_batch(2)}}}) {
    const Sets more = set + Sets{"training.steps=4"};
    const Measured without = measure_memory(load_case("llama_sgd64", more, ranks), ranks, {}, 3);
    const Config config =
        load_case("llama_sgd64", more + kEvery + Sets{same_data("llama_sgd64", 40)}, ranks);
    TrainerOptions options;
    options.eval_sets = open_eval_sets(config);
    const Measured with = measure_memory(config, ranks, options, 3);
    for (size_t rank = 0; rank < with.peak.size(); ++rank) {
      EXPECT_LE(static_cast<double>(with.peak[rank]),
                1.02 * static_cast<double>(without.peak[rank]))
          << "rank " << rank;
    }
  }
}

// A set may have fewer samples than a batch; several are named.
TEST(Evaluation, SetsAreNamedAndMayBeSmall) {
  const std::string data = (case_path("llama_sgd64") / "data/train").string();
  const std::string loader = "{sizes: [0, 3, 0], config: {data_path: ['" + data + "']}}";
  const Config config = load_case("llama_sgd64",
                                  kEvery + Sets{"eval_dataset=[{name: a, dataloader: " + loader +
                                                "}, {dataloader: " + loader + "}]"},
                                  1);
  const auto record = run(config, 1, 1);
  const auto& found = record->steps.at(0).evaluations;
  ASSERT_EQ(found.size(), 2);
  EXPECT_EQ(found[0].name, "a");
  EXPECT_EQ(found[1].name, "valid_1");
  EXPECT_EQ(found[0].samples, 3);
  EXPECT_EQ(found[0].loss, found[1].loss);
}

// A published folder and a checkpoint of it have the same loss.
TEST(Evaluation, OfAFolderIsThatOfItsCheckpoint) {
  const TempDir folder;
  const Sets set =
      kEvery + Sets{same_data("llama_sgd64", 20), "training.steps=1", "checkpoint.enable_save=true",
                    "checkpoint.save_path='" + folder.path().string() + "'",
                    "lr_scheduler.learning_rate=0"};
  const Config config = load_case("llama_sgd64", set + Sets{local_batch(4)}, 1);
  const double trained = run(config, 1, 1)->steps.at(0).evaluations.at(0).loss;
  EXPECT_EQ(run_evaluation(config, {}).at(0).loss, trained);
  Config of_checkpoint = config;
  of_checkpoint.checkpoint.load_path = folder.path().string();
  WorldOptions two;
  two.thread_ranks = 2;
  EXPECT_NEAR_REL(run_evaluation(of_checkpoint, two).at(0).loss, trained, 1e-12);
}

// The bytes of a byte tokenizer are its tokens: bits a byte are bits a token.
TEST(Evaluation, BitsPerByteAreThoseOfTheText) {
  const Config config =
      load_case("llama_sgd64", kEvery + Sets{same_data("llama_sgd64", 8), "training.steps=1"}, 1);
  std::vector<EvalSet> sets = open_eval_sets(config);
  EXPECT_EQ(sets[0].bytes_of_token, nullptr);
  sets[0].bytes_of_token = std::make_shared<const std::vector<int32_t>>(256, 2);
  TrainerOptions options;
  options.eval_sets = sets;
  const auto record = run_until(config, 1, 1, options);
  const EvalMetrics& found = record->steps.at(0).evaluations.at(0);
  EXPECT_NEAR_REL(found.bits_per_byte.value(), found.loss / std::log(2.0) / 2, 1e-12);
}

}  // namespace
}  // namespace tessera::test
