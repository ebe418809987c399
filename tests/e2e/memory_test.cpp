// Memory: what a run uses is what the plan says, and what the formulas allow. All sizes are bytes
// of tensors from the counting allocator, ranks are threads.

#include "tessera/comm/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "tessera/base/box.h"
#include "tessera/comm/threads/run_ranks.h"
#include "tessera/layout/model_spec.h"
#include "tessera/planner/plan.h"
#include "tessera/train/trainer.h"
#include "tests/e2e/layout.h"
#include "tests/e2e/run_trainer.h"

namespace tessera::test {
namespace {

using Set = std::vector<std::string>;

std::string model(const std::string& key, const std::string& value) {
  return "model." + key + "=" + value;
}
std::string model(const std::string& key, int64_t value) {
  return model(key, std::to_string(value));
}
std::string parallel(const std::string& key, const std::string& value) {
  return "parallelism." + key + "=" + value;
}
std::string parallel(const std::string& key, int64_t value) {
  return parallel(key, std::to_string(value));
}
std::string global_batch(int64_t batch) {
  return "training.global_batch_size=" + std::to_string(batch);
}
Set length(int64_t tokens) {
  return {model("seq_length", tokens), model("max_position_embeddings", tokens),
          "train_dataset.dataloader.config.seq_length=" + std::to_string(tokens)};
}

// From the generator, in float32: the case files are in float64.
Set narrow() {
  Set set{"checkpoint.load_path=''"};
  for (const char* dtype : {"params_dtype", "embedding_params_dtype", "compute_dtype",
                            "layernorm_compute_dtype", "rotary_dtype"}) {
    set.push_back(model(dtype, "float32"));
  }
  return set;
}

const std::string kRouter = model("moe_router_dtype", "float32");

// Documents of `document` tokens; 0: one a sample.
class Tokens : public SampleSource {
 public:
  Tokens(const Config& config, int64_t document)
      : length_(config.model.seq_length + 1),
        vocabulary_(config.model.vocab_size),
        eod_(config.train_dataset.dataloader.config.eod),
        document_(document) {}
  int64_t size() const override { return 1000; }
  int64_t sample_length() const override { return length_; }
  int64_t read(int64_t index, std::span<int64_t> tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto place = static_cast<int64_t>(i);
      tokens[i] = 3 + (index * 31 + place * 17 + place * place % 13) % (vocabulary_ - 3);
      if (document_ > 0 && (place + 1) % document_ == 0) tokens[i] = eod_;
    }
    return length_;
  }

 private:
  int64_t length_, vocabulary_, eod_, document_;
};

Measured measure(const Config& config, int64_t ranks, int64_t document = 0, int64_t steps = 2) {
  TrainerOptions options;
  options.source = std::make_shared<Tokens>(config, document);
  return measure_memory(config, ranks, options, steps);
}

// What is left of the peak when masters, moments, gradients and gathered weights are taken away,
// which are known to the byte.
int64_t activations(const Measured& measured, const Plan& plan, int64_t rank) {
  const MemoryPlan& memory = plan.memory[static_cast<size_t>(rank)];
  return measured.peak[static_cast<size_t>(rank)] - (memory.peak - memory.activations);
}

// --- what stays
// -----------------------------------------------------------------------------------

// Rows are cut into pieces of ceil(rows / shard), of which the last are shorter: rank 0 holds the
// largest, and nobody holds padding.
TEST(PersistentMemory, IsTheSumOverTheTable) {
  for (const char* optimizer : {"SGD", "AdamW"}) {
    const Config config = load_case(
        "llama_sgd64",
        narrow() + Set{shard(3), local_batch(1), global_batch(3),
                       "optimizer.type=" + std::string(optimizer), model("vocab_size", 250)},
        3);
    const int64_t copies = std::string(optimizer) == "SGD" ? 1 : 3;  // with moments
    const Measured measured = measure(config, 3);
    int64_t whole = 0, padding = 0, largest = 0;
    for (int64_t rank = 0; rank < 3; ++rank) {
      int64_t bytes = 0;
      for (const ParamSpec& spec : model_spec(config.model)) {
        const int64_t row = spec.numel() / spec.shape[0] * 4 * copies;
        bytes += part_of(spec.shape[0], 3, rank).size() * row;
        if (rank > 0) continue;
        whole += spec.shape[0] * row;
        largest += (spec.shape[0] + 2) / 3 * row;
        padding += ((spec.shape[0] + 2) / 3 * 3 - spec.shape[0]) * row;
      }
      EXPECT_EQ(measured.persistent[static_cast<size_t>(rank)], bytes) << "rank " << rank;
    }
    EXPECT_EQ(measured.persistent[0], largest);
    std::printf("%s: %ld bytes over 3 ranks; equal pieces would pad %ld, none are held\n",
                optimizer, whole, padding);
  }
}

// What each step leaves behind would grow: graphs, buffers of recomputation, dispatched tokens.
TEST(PersistentMemory, IsTheSameAfterFiftySteps) {
  const Set common{"training.steps=50", "recompute.mode=full",
                   "recompute.full_recompute_layer=[0-3]", "optimizer.type=AdamW"};
  const std::vector<std::pair<std::string, Layout>> runs = {
      {"llama_sgd64",
       {"pipeline",
        8,
        {shard(2), tp(2), parallel("pipeline_parallel", 2),
         parallel("pipeline_parallel_layers_per_stage", "auto"), local_batch(2)}}},
      {"qwen3_eod64", {"ring", 4, {shard(2), parallel("context_parallel", 2), local_batch(4)}}},
      {"qwen3_moe64",
       {"experts", 4, {shard(2), tp(2), parallel("expert_parallel", 2), local_batch(4), kRouter}}}};
  for (const auto& [file, layout] : runs) {
    const Config config = load_case(file, narrow() + layout.set + common, layout.ranks);
    const Plan plan = make_plan(config, layout.ranks);
    const Measured measured = measure(config, layout.ranks, 0, 50);
    for (size_t rank = 0; rank < measured.peak.size(); ++rank) {
      EXPECT_EQ(measured.persistent[rank], plan.memory[rank].weights + plan.memory[rank].moments)
          << file << " rank " << rank;
    }
  }
}

TEST(PersistentMemory, IsThePlansForEveryFamily) {
  const std::vector<std::pair<std::string, Layout>> runs = {
      {"qwen3_tied64", {"tied", 2, {shard(2), local_batch(4)}}},
      {"llama_sgd64", {"tp", 4, {shard(2), tp(2), local_batch(4)}}},
      {"qwen3_moe64",
       {"experts", 4, {shard(4), parallel("expert_parallel", 2), local_batch(2), kRouter}}},
      {"deepseek_v3_64", {"latent", 2, {shard(2), local_batch(4), kRouter}}}};
  for (const auto& [file, layout] : runs) {
    const Config config =
        load_case(file, narrow() + layout.set + Set{"optimizer.type=AdamW"}, layout.ranks);
    const Plan plan = make_plan(config, layout.ranks);
    const Measured measured = measure(config, layout.ranks);
    for (size_t rank = 0; rank < measured.peak.size(); ++rank) {
      EXPECT_EQ(measured.persistent[rank], plan.memory[rank].weights + plan.memory[rank].moments)
          << file << " rank " << rank;
    }
  }
}

// --- what is there at once
// ------------------------------------------------------------------------

// Little work and many layers: what counts is what is held of the weights. Activations are measured
// on one rank, where they are the most of it, and are as many bytes for every sample.
TEST(PeakMemory, WithAlwaysTwoUnitsAreWholeAndTwoHaveFullGradients) {
  constexpr int64_t kSamples = 32;
  const auto config_of = [](int64_t ranks, int64_t samples) {
    return load_case(
        "llama_sgd64",
        narrow() + length(32) +
            Set{shard(ranks), policy("always"), local_batch(samples), global_batch(samples * ranks),
                model("hidden_size", 128), model("intermediate_size", 256),
                model("num_attention_heads", 8), model("num_hidden_layers", 8)},
        ranks);
  };
  const Config one = config_of(1, kSamples);
  const Config four = config_of(4, 1);
  const int64_t made = activations(measure(one, 1), make_plan(one, 1), 0) / kSamples;
  const Plan plan = make_plan(four, 4);
  const Measured measured = measure(four, 4);
  for (size_t rank = 0; rank < 4; ++rank) {
    const MemoryPlan& m = plan.memory[rank];
    // Full gradients of two units are as large as two gathered ones.
    const int64_t bound = m.weights + m.gradients + m.moments + made + 2 * m.gathered;
    std::printf("rank %zu: peak %ld, planned %ld, bound %ld\n", rank, measured.peak[rank], m.peak,
                bound);
    EXPECT_LE(measured.peak[rank], bound) << "rank " << rank;
    EXPECT_GT(measured.peak[rank], bound / 2) << "rank " << rank;
  }
}

struct PlannedRun {
  std::string file;
  Layout layout;
  int64_t document = 0;
};
std::ostream& operator<<(std::ostream& out, const PlannedRun& run) {
  return out << run.file << " " << run.layout;
}

void expect_planned(const PlannedRun& run, double tolerance) {
  const auto& [file, layout, document] = run;
  const Config config = load_case(file, narrow() + length(256) + layout.set, layout.ranks);
  const Plan plan = make_plan(config, layout.ranks);
  const Measured measured = measure(config, layout.ranks, document);
  for (int64_t rank = 0; rank < layout.ranks; ++rank) {
    const auto planned = static_cast<double>(plan.memory[static_cast<size_t>(rank)].activations);
    const auto made = static_cast<double>(activations(measured, plan, rank));
    std::printf("rank %ld: activations %.0f, planned %.0f (%+.1f %%); peak %ld\n", rank, made,
                planned, 100 * (planned / made - 1), measured.peak[static_cast<size_t>(rank)]);
    EXPECT_NEAR(planned / made, 1.0, tolerance) << "rank " << rank;
  }
}

class PlannedActivations : public testing::TestWithParam<PlannedRun> {};

TEST_P(PlannedActivations, AreWithinFifteenPercent) { expect_planned(GetParam(), 0.15); }

class PlannedFamilies : public testing::TestWithParam<PlannedRun> {};

TEST_P(PlannedFamilies, AreWithinOnePercent) { expect_planned(GetParam(), 0.01); }

const Set kMask = {model("use_attn_mask_compression", "true")};
const std::string kStages = parallel("pipeline_parallel_layers_per_stage", "auto");
const Set kBf16 = {model("compute_dtype", "bfloat16")};

INSTANTIATE_TEST_SUITE_P(
    Layouts, PlannedActivations,
    testing::Values(
        PlannedRun{"llama_sgd64", {"one", 1, {local_batch(8)}}},
        PlannedRun{"qwen3_tied64", {"one", 1, {local_batch(8)}}},
        PlannedRun{"llama_sgd64", {"shard4", 4, {shard(4), local_batch(2)}}},
        PlannedRun{"llama_sgd64", {"bfloat16", 2, kBf16 + Set{shard(2), local_batch(4)}}},
        PlannedRun{"llama_sgd64",
                   {"chunked_loss", 1, {local_batch(8), model("chunk_loss_num", 8)}}},
        PlannedRun{
            "llama_sgd64",
            {"full_recompute",
             1,
             {local_batch(8), "recompute.mode=full", "recompute.full_recompute_layer=[0-3]"}}},
        PlannedRun{"llama_sgd64",
                   {"recompute_but_core",
                    1,
                    {local_batch(8), "recompute.mode=full", "recompute.full_recompute_layer=[0-3]",
                     "recompute.exclude_op={self_attention.core_attention: [0-3]}"}}},
        PlannedRun{"llama_sgd64",
                   {"recompute_but_mlp",
                    1,
                    {local_batch(8), "recompute.mode=full", "recompute.full_recompute_layer=[0-3]",
                     "recompute.exclude_op={mlp: [0-3]}"}}},
        PlannedRun{
            "llama_sgd64",
            {"select_recompute",
             1,
             {local_batch(8), "recompute.mode=select",
              "recompute.select_module={mlp: [0-3], self_attention.core_attention: [0-1]}"}}},
        PlannedRun{"qwen3_eod64", {"packed", 2, {shard(2), local_batch(4)}}, 64},
        PlannedRun{"llama_sgd64", {"tp2", 2, {tp(2), local_batch(8)}}},
        PlannedRun{"qwen3_tied64",
                   {"tp2_loss_parallel",
                    4,
                    {tp(2), shard(2), local_batch(4), parallel("enable_loss_parallel", "true")}}},
        PlannedRun{"llama_sgd64",
                   {"ring", 4,
                    kMask + Set{parallel("context_parallel", 4), local_batch(8),
                                parallel("context_parallel_exchange", "ring")}}},
        PlannedRun{"llama_sgd64",
                   {"allgather", 2,
                    kMask + Set{parallel("context_parallel", 2), local_batch(8),
                                parallel("context_parallel_exchange", "allgather")}}},
        PlannedRun{"llama_sgd64",
                   {"ulysses", 2,
                    kMask + Set{parallel("context_parallel", 2), local_batch(8),
                                parallel("context_parallel_method", "ulysses")}}},
        PlannedRun{"llama_sgd64",
                   {"pp2", 2, {parallel("pipeline_parallel", 2), kStages, local_batch(1)}}},
        PlannedRun{"llama_sgd64",
                   {"pp2v2",
                    2,
                    {parallel("pipeline_parallel", 2), kStages, local_batch(1),
                     parallel("pipeline_parallel_interleave_num", 2)}}},
        PlannedRun{"qwen3_moe64", {"one", 1, {local_batch(8), kRouter}}},
        PlannedRun{"qwen3_moe_aux64",
                   {"ep2",
                    2,
                    {shard(2), parallel("expert_parallel", 2), local_batch(4), kRouter,
                     model("moe_router_force_expert_balance", "true")}}},
        PlannedRun{"deepseek_v3_64", {"one", 1, {local_batch(8), kRouter}}},
        PlannedRun{"deepseek_v3_64",
                   {"tp2_full",
                    2,
                    {tp(2), local_batch(8), kRouter, "recompute.mode=full",
                     "recompute.full_recompute_layer=[0-3]"}}}),
    [](const auto& info) { return info.param.file + "_" + info.param.layout.name; });

// What the other families have of their own: windows, caps, sinks, norms elsewhere, biases of
// experts, wide norms of q and k, pairs of neighbours.
const auto kOne = Layout{"one", 1, {local_batch(8)}};
const auto kTwo = Layout{"tp2", 2, {tp(2), local_batch(8)}};
INSTANTIATE_TEST_SUITE_P(
    Families, PlannedFamilies,
    testing::Values(PlannedRun{"mistral_window64", kOne}, PlannedRun{"phi3_64", kOne},
                    PlannedRun{"olmo2_64", kOne}, PlannedRun{"olmo2_64", kTwo},
                    PlannedRun{"gemma2_64", kOne}, PlannedRun{"gemma2_64", kTwo},
                    PlannedRun{"gemma3_64", kOne}, PlannedRun{"gemma3_64", kTwo},
                    PlannedRun{"glm4_64", kOne}, PlannedRun{"glm4_64", kTwo},
                    PlannedRun{"glm4_moe64", {"one", 1, {local_batch(8), kRouter}}},
                    PlannedRun{"gpt_oss64", {"one", 1, {local_batch(8), kRouter}}}),
    [](const auto& info) { return info.param.file + "_" + info.param.layout.name; });

// --- how it falls with the degrees
// ----------------------------------------------------------------

// Of six layers less those of two: what four layers keep.
int64_t kept_by_four_layers(int64_t degree) {
  const auto made = [&](int64_t layers) {
    const Config config =
        load_case("llama_sgd64",
                  narrow() + length(256) +
                      Set{tp(degree), local_batch(8), model("num_key_value_heads", 4),
                          model("num_hidden_layers", layers)},
                  degree);
    return activations(measure(config, degree), make_plan(config, degree), 0);
  };
  return made(6) - made(2);
}

TEST(SavedActivations, OverTensorParallelRanksAreAPart) {
  const auto whole = static_cast<double>(kept_by_four_layers(1));
  for (const int64_t degree : {2, 4}) {
    const auto part = static_cast<double>(kept_by_four_layers(degree));
    EXPECT_NEAR(part * static_cast<double>(degree) / whole, 1.0, 0.05) << "tp " << degree;
  }
}

TEST(PeakActivations, OfAPipelineFollowTheLiveMicroBatches) {
  const auto config_of = [](int64_t micro_batches) {
    return load_case("llama_sgd64",
                     narrow() + length(128) +
                         Set{parallel("pipeline_parallel", 4), kStages, local_batch(1),
                             global_batch(micro_batches), model("num_hidden_layers", 32),
                             model("hidden_size", 32), model("num_attention_heads", 2),
                             model("intermediate_size", 64)},
                     4);
  };
  const Config one = config_of(1), eight = config_of(8);
  const Plan plan_of_one = make_plan(one, 4), plan = make_plan(eight, 4);
  const Measured of_one = measure(one, 4), measured = measure(eight, 4);
  for (int64_t rank = 0; rank < 4; ++rank) {
    const auto live =
        static_cast<double>(plan.pipeline->peak_live_chunks[static_cast<size_t>(rank)]);
    EXPECT_EQ(live, 4.0 - static_cast<double>(rank));
    const auto single = static_cast<double>(activations(of_one, plan_of_one, rank));
    const auto made = static_cast<double>(activations(measured, plan, rank));
    EXPECT_NEAR(made / (live * single), 1.0, 0.10) << "stage " << rank;
  }
}

Config long_sequence(int64_t tokens, int64_t cp, const Set& more) {
  return load_case("qwen3_eod64",
                   narrow() + length(tokens) +
                       Set{parallel("context_parallel", cp), local_batch(1), global_batch(1),
                           model("num_hidden_layers", 1), model("hidden_size", 32),
                           model("intermediate_size", 64), model("num_attention_heads", 2),
                           model("num_key_value_heads", 2), model("head_dim", 16)} +
                       more,
                   cp);
}

// A tensor of scores or a mask, forward or backward, would grow with the square.
TEST(PeakActivations, OfAContextGrowWithTheLengthOfTheSequence) {
  const Set ring = kMask + Set{parallel("context_parallel_exchange", "ring")};
  std::vector<double> peaks;
  for (const int64_t tokens : {8192, 16384, 32768}) {
    const Measured measured = measure(long_sequence(tokens, 2, ring), 2, 4096);
    peaks.push_back(static_cast<double>(std::max(measured.peak[0], measured.peak[1])));
  }
  EXPECT_NEAR((peaks[2] - peaks[1]) / (peaks[1] - peaks[0]), 2.0, 0.1);
}

TEST(PeakActivations, OfAContextFallWithTheRanks) {
  for (const Set& method : {Set{parallel("context_parallel_exchange", "ring")},
                            Set{parallel("context_parallel_method", "ulysses")}}) {
    std::vector<double> made;
    for (const int64_t cp : {2, 4}) {
      const Set heads{model("num_attention_heads", 4), model("num_key_value_heads", 4)};
      const Config config = long_sequence(8192, cp, kMask + method + heads);
      const Plan plan = make_plan(config, cp);
      const Measured measured = measure(config, cp, 1024);
      int64_t most = 0;
      for (int64_t rank = 0; rank < cp; ++rank) {
        most = std::max(most, activations(measured, plan, rank));
      }
      made.push_back(static_cast<double>(most));
    }
    EXPECT_LE(made[1] / made[0], 0.6) << method[0];
  }
}

// --- in the metrics
// -------------------------------------------------------------------------------

TEST(MemoryMetrics, AreOfTheStepAndOfEveryRank) {
  const Config config = load_case("llama_sgd64", {shard(2), local_batch(4)}, 2);
  const Plan plan = make_plan(config, 2);
  TrainerOptions options;
  options.source = std::make_shared<Tokens>(config, 0);
  run_ranks(2, [&](const ProcessGroup& world) {
    Trainer trainer(config, world, options);
    trainer.train_step();
    const StepMetrics step = trainer.train_step();
    ASSERT_EQ(step.peak_memory_of_rank.size(), 2U);
    EXPECT_EQ(step.peak_memory, *std::ranges::max_element(step.peak_memory_of_rank));
    EXPECT_GE(step.memory, plan.memory[0].weights + plan.memory[0].gradients);
    EXPECT_LT(step.memory, step.peak_memory);
    EXPECT_NE(json_line(step).find("\"peak_memory_bytes\": " + std::to_string(step.peak_memory)),
              std::string::npos);
  });
}

}  // namespace
}  // namespace tessera::test
