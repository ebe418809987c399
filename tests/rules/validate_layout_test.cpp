// One test per rule: the base file with one thing wrong. The layout.

#include "tessera/layout/batch_plan.h"
#include "tessera/rules/validate.h"
#include "tests/config/config_testing.h"

namespace tessera {
namespace {

using namespace testing_config;
using Sets = std::vector<std::string>;

// World and data parallelism.

TEST(ValidateLayout, DegreesMustMultiplyToTheWorld) {
  EXPECT_THAT(
      check_base(6, {"parallelism.tensor_parallel=4"}),
      HasError("parallelism.tensor_parallel",
               "tensor_parallel 4 x context_parallel 1 x pipeline_parallel 1 = 4 must divide "
               "the 6 ranks"));
  EXPECT_THAT(
      check_base(6, {"parallelism.tensor_parallel=4"}),
      HasError("parallelism.tensor_parallel", "nearest legal: 1, 2, 3, 6; or 4 ranks or 8"));
  EXPECT_THAT(check_base(2, {"parallelism.pipeline_parallel=4",
                             "parallelism.pipeline_parallel_layers_per_stage=auto"}),
              HasError("parallelism.pipeline_parallel", "must divide the 2 ranks"));
  EXPECT_TRUE(has_errors(check_base(0)));
}

TEST(ValidateLayout, ShardMustDivideDataParallel) {
  for (const char* shard : {"3", "0", "-2", "16"}) {
    EXPECT_THAT(
        check_base(8, {"parallelism.data_parallel_shard=" + std::string(shard)}),
        HasError("parallelism.data_parallel_shard", "must be -1 or divide data parallel (8"));
  }
  EXPECT_THAT(check_base(8, {"parallelism.data_parallel_shard=3"}),
              HasError("parallelism.data_parallel_shard", "nearest legal: -1, 1, 2, 4, 8"));
  EXPECT_THAT(check_base(8, {"parallelism.data_parallel_shard=4"}), HasNoErrors());
}

TEST(ValidateLayout, DenseShardSizeIsTheDefault) {
  EXPECT_THAT(check_base(8, {"parallelism.dense_fsdp_shard_size=4"}),
              HasError("parallelism.dense_fsdp_shard_size", "only dp_shard x cp (8)"));
  EXPECT_THAT(check_base(8, {"parallelism.dense_fsdp_shard_size=8"}), HasNoErrors());
}

TEST(ValidateLayout, BatchMustBeLargeEnough) {
  EXPECT_THAT(check_base(8, {"training.local_batch_size=2"}),
              HasError("training.global_batch_size",
                       "must be at least data parallel (8) x local_batch_size (2) = 16; nearest "
                       "legal: 16; or local_batch_size 1"));
}

TEST(ValidateLayout, AStepHasABoundedNumberOfMicroBatches) {
  const int64_t most = 4 * kMostMicroBatches;
  EXPECT_THAT(check_base(4, {"training.global_batch_size=" + std::to_string(most)}), HasNoErrors());
  EXPECT_THAT(check_base(4, {"training.global_batch_size=1073741824"}),
              HasError("training.global_batch_size",
                       "makes 268435456 micro-batches of data parallel (4) x local_batch_size (1) "
                       "= 4; at most 1048576 are run in a step; nearest legal: 4194304"));
}

TEST(ValidateLayout, BatchThatIsRoundedDownIsNamed) {
  EXPECT_THAT(check_base(4, {"training.global_batch_size=10"}),
              HasWarning("training.global_batch_size", "the effective batch is 8 = 4 x 2"));
}

// Tensor parallelism.

TEST(ValidateLayout, HeadsWidthsAndTokensMustDivide) {
  EXPECT_THAT(check_base(8, {"model.num_attention_heads=6", "model.num_key_value_heads=6",
                             "parallelism.tensor_parallel=4"}),
              HasError("parallelism.tensor_parallel",
                       "must divide num_attention_heads (6); nearest legal: 1, 2"));
  EXPECT_THAT(check_base(8, {"model.intermediate_size=174", "parallelism.tensor_parallel=4"}),
              HasError("parallelism.tensor_parallel", "must divide intermediate_size (174)"));
  EXPECT_THAT(check_base(8, {"model.seq_length=63", "parallelism.tensor_parallel=2",
                             "train_dataset.dataloader.config.seq_length=63"}),
              HasError("parallelism.tensor_parallel", "must divide the tokens of a rank"));
}

TEST(ValidateLayout, FewKvHeadsAreCopiedOrRefused) {
  EXPECT_THAT(check_base(4, {"model.num_key_value_heads=2", "parallelism.tensor_parallel=4"}),
              HasNoErrors());
  EXPECT_THAT(check_base(4, {"model.num_key_value_heads=2", "parallelism.tensor_parallel=2"}),
              HasNoErrors());
  EXPECT_THAT(check_base(8, {"model.num_attention_heads=24", "model.num_key_value_heads=6",
                             "parallelism.tensor_parallel=4"}),
              HasError("parallelism.tensor_parallel",
                       "must divide num_key_value_heads (6) or be a multiple of it; nearest legal: "
                       "1, 2"));
}

TEST(ValidateLayout, IndependentErrorsAreAllReported) {
  const auto issues = check_base(
      4, {"model.num_attention_heads=6", "model.num_key_value_heads=6",
          "model.intermediate_size=174", "model.hidden_size=66", "parallelism.tensor_parallel=4"});
  EXPECT_THAT(issues, HasError("parallelism.tensor_parallel", "num_attention_heads"));
  EXPECT_THAT(issues, HasError("parallelism.tensor_parallel", "intermediate_size"));
  const std::string text(kBase);
  const size_t at = text.find("  head_dim: 8\n");
  const std::string without = text.substr(0, at) + text.substr(at + 14);
  EXPECT_THAT(check_text(without, 1, {"model.hidden_size=66"}).issues,
              HasError("model.hidden_size",
                       "must divide by num_attention_heads (8) unless head_dim is given; nearest "
                       "legal: 64, 72"));
}

TEST(ValidateLayout, MoeUnderTensorParallelNeedsNoWidthOfExperts) {
  EXPECT_THAT(check_base(8, moe({"parallelism.tensor_parallel=4", "model.moe_intermediate_size=30",
                                 "model.intermediate_size=174"})),
              HasNoErrors());
  EXPECT_THAT(
      check_base(8, deepseek({"parallelism.tensor_parallel=4", "model.intermediate_size=174"})),
      HasError("parallelism.tensor_parallel", "must divide intermediate_size (174)"));
}

// Context parallelism.

Sets cp(const Sets& more) {
  Sets sets = {"parallelism.context_parallel=4"};
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

TEST(ValidateLayout, UlyssesDegree) {
  EXPECT_THAT(check_base(8, cp({"parallelism.context_parallel_method=ulysses"})), HasNoErrors());
  EXPECT_THAT(check_base(8, cp({"parallelism.context_parallel_method=ulysses",
                                "parallelism.ulysses_degree_in_cp=4"})),
              HasNoErrors());
  EXPECT_THAT(check_base(8, cp({"parallelism.context_parallel_method=ulysses",
                                "parallelism.ulysses_degree_in_cp=2"})),
              HasError("parallelism.ulysses_degree_in_cp", "must be context_parallel (4) or null"));
}

TEST(ValidateLayout, HybridDegree) {
  for (const char* degree : {"1", "4", "3", "0", "-2"}) {
    EXPECT_THAT(check_base(8, cp({"parallelism.context_parallel_method=hybrid",
                                  "parallelism.ulysses_degree_in_cp=" + std::string(degree)})),
                HasError("parallelism.ulysses_degree_in_cp",
                         "must be above 1, below context_parallel (4) and divide it; nearest "
                         "legal: 2"))
        << degree;
  }
  EXPECT_THAT(check_base(8, cp({"parallelism.context_parallel_method=hybrid"})),
              HasError("parallelism.ulysses_degree_in_cp", "is needed with hybrid"));
  EXPECT_THAT(check_base(8, cp({"parallelism.context_parallel_method=hybrid",
                                "parallelism.ulysses_degree_in_cp=2"})),
              HasNoErrors());
  EXPECT_THAT(check_base(2, {"parallelism.context_parallel=2", "parallelism.ulysses_degree_in_cp=2",
                             "parallelism.context_parallel_method=hybrid"}),
              HasError("parallelism.ulysses_degree_in_cp", "no degree does"));
}

TEST(ValidateLayout, HeadsOfATensorParallelRankDivideByTheUlyssesDegree) {
  EXPECT_THAT(check_base(4, cp({"parallelism.context_parallel_method=ulysses",
                                "model.num_attention_heads=6", "model.num_key_value_heads=6",
                                "parallelism.context_parallel_async=true"})),
              HasError("parallelism.context_parallel",
                       "ulysses degree 4 must divide the attention heads (6); nearest legal: 1, 2, "
                       "3, 6"));
  EXPECT_THAT(check_base(8, cp({"parallelism.context_parallel_method=ulysses",
                                "model.num_attention_heads=4", "model.num_key_value_heads=4",
                                "parallelism.tensor_parallel=2"})),
              HasError("parallelism.context_parallel",
                       "must divide the attention heads of a tensor-parallel rank (2)"));
  EXPECT_THAT(check_base(4, cp({"parallelism.context_parallel_method=ulysses",
                                "model.num_key_value_heads=2"})),
              HasNoErrors());
  EXPECT_THAT(
      check_base(8, {"parallelism.context_parallel=8", "parallelism.context_parallel_method=hybrid",
                     "parallelism.ulysses_degree_in_cp=4", "model.num_key_value_heads=2"}),
      HasNoErrors());
  EXPECT_THAT(check_base(4, cp({"parallelism.context_parallel_method=ulysses",
                                "model.num_attention_heads=12", "model.num_key_value_heads=6"})),
              HasError("parallelism.context_parallel", "must divide the kv heads (6) or be"));
}

Sets length(int64_t n, const Sets& more = {}) {
  Sets sets = cp({"model.seq_length=" + std::to_string(n),
                  "train_dataset.dataloader.config.seq_length=" + std::to_string(n)});
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

TEST(ValidateLayout, LengthMustDivide) {
  EXPECT_THAT(check_base(4, length(63)),
              HasError("parallelism.context_parallel",
                       "must divide seq_length (63); nearest legal: 1, 3, 7, 9, 21, 63; or "
                       "seq_length 60, 64"));
  EXPECT_THAT(check_base(4, length(4)), HasNoErrors());
  EXPECT_THAT(check_base(4, length(60)), HasNoErrors());
  EXPECT_THAT(
      format_issues(check_base(4, length(60))),
      ::testing::HasSubstr("2 x context_parallel (8) does not divide seq_length (60): ranks "
                           "take contiguous pieces"));
  EXPECT_THAT(check_base(4, length(60, {"parallelism.context_parallel_balance=head_tail"})),
              HasError("parallelism.context_parallel_balance", "or seq_length 56, 64"));
  // Documents are shared by their work, whatever the length.
  EXPECT_THAT(
      format_issues(check_base(
          4, length(60, {"train_dataset.dataloader.config.create_compressed_eod_mask=true"}))),
      ::testing::Not(::testing::HasSubstr("contiguous pieces")));
  EXPECT_THAT(check_base(4, length(63, {"parallelism.context_parallel_method=ulysses"})),
              HasError("parallelism.context_parallel", "seq_length 60, 64"));
}

// A hybrid grid balances over its rows only.
TEST(ValidateLayout, LengthsOfAHybrid) {
  const Sets hybrid = {"parallelism.context_parallel_method=hybrid",
                       "parallelism.ulysses_degree_in_cp=2",
                       "parallelism.context_parallel_balance=head_tail"};
  EXPECT_THAT(check_base(4, length(60, hybrid)), HasNoErrors());
  EXPECT_THAT(check_base(4, length(62, hybrid)),
              HasError("parallelism.context_parallel", "60, 64"));
}

TEST(ValidateLayout, ContextParallelNeedsACompressedMask) {
  EXPECT_THAT(check_base(4, cp({"model.use_attn_mask_compression=false"})),
              HasError("parallelism.context_parallel", "requires a compressed attention mask"));
  const std::string data = "train_dataset.dataloader.config.";
  EXPECT_THAT(check_base(4, cp({"model.use_attn_mask_compression=false",
                                data + "create_compressed_eod_mask=true"})),
              HasNoErrors());
  EXPECT_THAT(check_base(4, cp({data + "create_compressed_eod_mask=true",
                                data + "create_attention_mask=true"})),
              HasError(data + "create_attention_mask", "requires a compressed attention mask"));
}

TEST(ValidateLayout, ColossalAndAsyncRuns) {
  const auto issues = check_base(4, cp({"parallelism.context_parallel_async=true"}));
  EXPECT_THAT(issues, HasNoErrors());
  EXPECT_THAT(format_issues(issues),
              ::testing::HasSubstr("context_parallel_async with colossal: keys and values travel"));
  EXPECT_THAT(format_issues(check_base(4, cp({}))),
              ::testing::Not(::testing::HasSubstr("context_parallel_async")));
}

// Pipeline.

Sets pp(int64_t stages, const std::string& layers, const Sets& more = {}) {
  Sets sets = {"parallelism.pipeline_parallel=" + std::to_string(stages)};
  if (!layers.empty()) sets.push_back("parallelism.pipeline_parallel_layers_per_stage=" + layers);
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

constexpr const char* kLayers = "parallelism.pipeline_parallel_layers_per_stage";

TEST(ValidateLayout, LayersPerStageIsNeededAndChecked) {
  EXPECT_THAT(check_base(4, pp(4, "")), HasError(kLayers, R"(nearest legal: auto, or ["0", "1")"));
  EXPECT_THAT(check_base(4, pp(4, "auto")), HasNoErrors());
  EXPECT_THAT(check_base(2, pp(2, "auto",
                               {"model.num_hidden_layers=10",
                                "parallelism.pipeline_parallel_interleave_num=2"})),
              HasError(kLayers, R"(for example ["0-2, 5-6", "3-4, 7-9"])"));
  EXPECT_THAT(check_base(2, pp(2, "['0-1', '3']")),
              HasError(std::string(kLayers) + "[1]", "\"3\": layer 2 missing before"));
  EXPECT_THAT(check_base(2, pp(2, "[[0, 1], [2, 3]]")), HasError(kLayers, "item 0 must be str"));
  EXPECT_THAT(check_base(2, pp(2, "none")), HasError(kLayers, "must be auto or list of str"));
  EXPECT_THAT(check_base(8, pp(8, "auto")),
              HasError("parallelism.pipeline_parallel", "must not exceed num_hidden_layers (4)"));
}

TEST(ValidateLayout, LinesOfLayerRangesAreTheirOwn) {
  const std::string text =
      std::string(kBase) +
      "parallelism:\n  pipeline_parallel: 2\n  pipeline_parallel_layers_per_stage:\n"
      "    - \"0-1\"\n    - \"3\"\n";
  const auto issues = check_text(text, 2).issues;
  ASSERT_EQ(count(issues, Severity::kError), 1) << format_issues(issues);
  EXPECT_EQ(issues[0].source.line, static_cast<int>(std::count(text.begin(), text.end(), '\n')));
}

TEST(ValidateLayout, FewMicroBatchesAreNamed) {
  EXPECT_THAT(check_base(4, pp(4, "auto", {"training.global_batch_size=2"})),
              HasWarning("parallelism.pipeline_parallel", "idle time / work = 1.5"));
  EXPECT_THAT(check_base(2, pp(2, "auto",
                               {"training.global_batch_size=1",
                                "parallelism.pipeline_parallel_interleave_num=2"})),
              HasWarning("parallelism.pipeline_parallel", "idle time / work = 1;"));
  EXPECT_EQ(count(check_base(2, pp(2, "auto")), Severity::kWarning), 0);
}

TEST(ValidateLayout, MicroBatchesNeedNotDivide) {
  EXPECT_THAT(check_base(2, pp(2, "auto", {"training.global_batch_size=5"})), HasNoErrors());
}

TEST(ValidateLayout, ReservedFieldsSayWhatHappens) {
  const Sets base = {"parallelism.pipeline_parallel_microbatch_size=4",
                     "parallelism.pipeline_parallel_schedule=gpipe",
                     "parallelism.pipeline_parallel_enable_dxdw_split=true"};
  const auto issues = check_base(1, base);
  EXPECT_THAT(issues, HasWarning("parallelism.pipeline_parallel_microbatch_size",
                                 "no effect; micro-batches = 8, derived from 8/(1·1)"));
  EXPECT_THAT(issues, HasWarning("parallelism.pipeline_parallel_schedule", "no effect"));
  EXPECT_THAT(issues, HasWarning("parallelism.pipeline_parallel_enable_dxdw_split", "no effect"));
  EXPECT_EQ(count(issues, Severity::kWarning), 3);
  EXPECT_EQ(count(check_base(1, {"parallelism.pipeline_parallel_microbatch_size=8",
                                 "parallelism.pipeline_parallel_schedule=1f1b"}),
                  Severity::kWarning),
            0);
}

}  // namespace
}  // namespace tessera
