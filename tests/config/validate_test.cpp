// One test per rule: the base file with one thing wrong.

#include "tessera/config/validate.h"

#include "config_testing.h"

namespace tessera {
namespace {

using namespace testing_config;
using ::testing::Not;
using Sets = std::vector<std::string>;

TEST(Validate, TheBaseFileHasNoFindings) {
  for (const int64_t world : {1, 2, 4, 8}) {
    EXPECT_TRUE(check_base(world).empty()) << format_issues(check_base(world));
  }
  EXPECT_THAT(check_base(8, moe()), HasNoErrors());
  EXPECT_THAT(check_base(8, deepseek()), HasNoErrors());
}

TEST(Validate, SingleValues) {
  const struct {
    const char* set;
    const char* says;
  } cases[] = {
      {"training.steps=0", "must be at least 1"},
      {"training.local_batch_size=0", "must be between 1 and"},
      {"training.global_batch_size=-8", "must be between 1 and"},
      {"training.timeout_seconds=0", "must be above 0"},
      {"training.rampup_batch_size=[2, 2, 100]", "is not built"},
      {"checkpoint.save_max=0", "must be at least 1"},
      {"checkpoint.save_interleaved_steps=0", "must be at least 1"},
      {"parallelism.tensor_parallel=0", "must be between 1 and"},
      {"parallelism.context_parallel=-1", "must be between 1 and"},
      {"parallelism.pipeline_parallel=9999999999", "must be between 1 and"},
      {"parallelism.expert_parallel=0", "must be between 1 and"},
      {"parallelism.pipeline_parallel_interleave_num=0", "must be between 1 and"},
      {"parallelism.npu_nums_per_device=0", "must be between 1 and"},
      {"parallelism.reshard_after_forward_policy=Always", "must be one of always, never, default"},
      {"parallelism.reshard_after_forward_policy=allways", "nearest legal: always"},
      {"parallelism.context_parallel_method=ring", "must be one of colossal, ulysses, hybrid"},
      {"parallelism.context_parallel_mask_type=full", "must be causal"},
      {"parallelism.context_parallel_exchange=p2p", "must be one of auto, ring, allgather"},
      {"parallelism.context_parallel_balance=zigzag", "must be one of auto, head_tail, contiguous"},
      {"parallelism.pipeline_parallel_schedule=zbv", "must be one of 1f1b"},
      {"parallelism.moe_token_dispatcher_type=deepep", "must be one of alltoall"},
      {"optimizer.type=Adam", "nearest legal: AdamW"},
      {"optimizer.type=Muon", "Muon is not built; must be one of AdamW, SGD"},
      {"optimizer.eps=-1e-8", "must be at least 0"},
      {"optimizer.weight_decay=-0.1", "must be at least 0"},
      {"optimizer.momentum=-0.1", "must be between 0 and 1"},
      {"optimizer.amsgrad=true", "is not built; only false"},
      {"optimizer.enable_cpu_offload=true", "is not built; only false"},
      {"lr_scheduler.type=Cosine", "must be one of ConstantWarmUpLR"},
      {"lr_scheduler.learning_rate=-1.0", "must be at least 0"},
      {"lr_scheduler.warmup_steps=-1", "must be at least 0"},
      {"lr_scheduler.warmup_ratio=1.5", "must be between 0 and 1"},
      {"train_dataset.dataloader.type=MindDataset", "MindDataset is not built"},
      {"train_dataset.dataloader.type=HFDataLoader", "HFDataLoader is not built"},
      {"train_dataset.dataloader.datasets_type=BERTDataset", "must be GPTDataset"},
      {"train_dataset.dataloader.config.seq_length=0", "must be between 1 and"},
      {"train_dataset.dataloader.config.seed=-1", "must be between 0 and"},
      {"train_dataset.dataloader.config.eod_pad_length=0", "must be between 1 and"},
      {"train_dataset.dataloader.config.eod=-2", "must be at least -1"},
      {"model.vocab_size=0", "must be between 1 and"},
      {"model.hidden_size=-64", "must be between 1 and"},
      {"model.num_hidden_layers=0", "must be between 1 and"},
      {"model.hidden_act=relu", "must be one of silu"},
      {"model.rms_norm_eps=-1.0", "must be at least 0"},
      {"model.rope_theta=0.0", "must be above 0"},
      {"model.normalization=LayerNorm", "must be RMSNorm"},
      {"model.position_embedding_type=none", "must be one of rope, yarn"},
      {"model.add_bias_linear=true", "is not built; only false"},
      {"model.gated_linear_unit=false", "is not built; only true"},
      {"model.attention_dropout=0.1", "is not built; only 0.0"},
      {"model.hidden_dropout=1.5", "must be between 0 and 1"},
      {"model.initializer_range=-0.02", "must be at least 0"},
      {"model.use_sliding_window=true", "is not built; only false"},
      {"model.activation_func_clamp_value=7.0", "is not built; only null"},
      {"model.num_nextn_predict_layers=2", "must be between 0 and 1"},
      {"swap.enable=true", "is not built; only false"},
      {"profiler.enable_profiling=true", "is not built; only false"},
      {"recompute.mode=partial", "must be one of None, full, select"},
      {"context.device_target=TPU", "must be one of Ascend, CPU, GPU, CUDA"},
  };
  for (const auto& c : cases) {
    const std::string field = std::string(c.set).substr(0, std::string(c.set).find('='));
    EXPECT_THAT(check_base(8, {c.set}), HasError(field, c.says)) << c.set;
  }
  EXPECT_THAT(check_base(8, {"lora_config={target_modules: '.*'}"}),
              HasError("lora_config", "is not built"));
  EXPECT_THAT(check_base(8, {"train_dataset.dataloader.phase=eval"}),
              HasError("train_dataset.dataloader.phase", "must be train"));
  EXPECT_THAT(check_base(8, {"run_mode=predict"}), HasError("run_mode", "must be train"));
  EXPECT_THAT(check_base(8, {"profiler.start_step=0"}),
              HasError("profiler.start_step", "must be at least 1"));
  EXPECT_THAT(check_base(8, {"model.layer_types=[full_attention, sliding_attention]"}),
              HasError("model.layer_types", "must be full_attention"));
}

TEST(Validate, NoModelNoScheduleNoData) {
  const auto issues = check_text("training: {steps: 1}", 1).issues;
  EXPECT_THAT(issues, HasError("model.model_type", "is needed"));
  EXPECT_THAT(issues, HasError("lr_scheduler.type", "is needed"));
  EXPECT_THAT(issues, HasError("train_dataset.dataloader.type", "is needed"));
}

// World and data parallelism.

TEST(Validate, DegreesMustMultiplyToTheWorld) {
  EXPECT_THAT(check_base(6, {"parallelism.tensor_parallel=4"}),
              HasError("parallelism.tensor_parallel",
                       "tensor_parallel 4 x context_parallel 1 x pipeline_parallel 1 = 4 must divide "
                       "the 6 ranks"));
  EXPECT_THAT(check_base(6, {"parallelism.tensor_parallel=4"}),
              HasError("parallelism.tensor_parallel", "nearest legal: 1, 2, 3, 6; or 4 ranks or 8"));
  EXPECT_THAT(check_base(2, {"parallelism.pipeline_parallel=4",
                             "parallelism.pipeline_parallel_layers_per_stage=auto"}),
              HasError("parallelism.pipeline_parallel", "must divide the 2 ranks"));
  EXPECT_TRUE(has_errors(check_base(0)));
}

TEST(Validate, ShardMustDivideDataParallel) {
  for (const char* shard : {"3", "0", "-2", "16"}) {
    EXPECT_THAT(check_base(8, {"parallelism.data_parallel_shard=" + std::string(shard)}),
                HasError("parallelism.data_parallel_shard", "must be -1 or divide data parallel (8"));
  }
  EXPECT_THAT(check_base(8, {"parallelism.data_parallel_shard=3"}),
              HasError("parallelism.data_parallel_shard", "nearest legal: -1, 1, 2, 4, 8"));
  EXPECT_THAT(check_base(8, {"parallelism.data_parallel_shard=4"}), HasNoErrors());
}

TEST(Validate, DenseShardSizeIsTheDefault) {
  EXPECT_THAT(check_base(8, {"parallelism.dense_fsdp_shard_size=4"}),
              HasError("parallelism.dense_fsdp_shard_size", "only dp_shard x cp (8)"));
  EXPECT_THAT(check_base(8, {"parallelism.dense_fsdp_shard_size=8"}), HasNoErrors());
}

TEST(Validate, BatchMustBeLargeEnough) {
  EXPECT_THAT(check_base(8, {"training.local_batch_size=2"}),
              HasError("training.global_batch_size",
                       "must be at least data parallel (8) x local_batch_size (2) = 16; nearest "
                       "legal: 16; or local_batch_size 1"));
}

TEST(Validate, BatchThatIsRoundedDownIsNamed) {
  EXPECT_THAT(check_base(4, {"training.global_batch_size=10"}),
              HasWarning("training.global_batch_size", "the effective batch is 8 = 4 x 2"));
}

// Tensor parallelism.

TEST(Validate, HeadsWidthsAndTokensMustDivide) {
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

TEST(Validate, FewKvHeadsAreCopiedOrRefused) {
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

TEST(Validate, IndependentErrorsAreAllReported) {
  const auto issues = check_base(4, {"model.num_attention_heads=6", "model.num_key_value_heads=6",
                                     "model.intermediate_size=174", "model.hidden_size=66",
                                     "parallelism.tensor_parallel=4"});
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

TEST(Validate, MoeUnderTensorParallelNeedsNoWidthOfExperts) {
  EXPECT_THAT(check_base(8, moe({"parallelism.tensor_parallel=4", "model.moe_intermediate_size=30",
                                 "model.intermediate_size=174"})),
              HasNoErrors());
  EXPECT_THAT(check_base(8, deepseek({"parallelism.tensor_parallel=4",
                                      "model.intermediate_size=174"})),
              HasError("parallelism.tensor_parallel", "must divide intermediate_size (174)"));
}

// Context parallelism.

Sets cp(const Sets& more) {
  Sets sets = {"parallelism.context_parallel=4"};
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

TEST(Validate, UlyssesDegree) {
  EXPECT_THAT(check_base(8, cp({"parallelism.context_parallel_method=ulysses"})), HasNoErrors());
  EXPECT_THAT(check_base(8, cp({"parallelism.context_parallel_method=ulysses",
                                "parallelism.ulysses_degree_in_cp=4"})),
              HasNoErrors());
  EXPECT_THAT(check_base(8, cp({"parallelism.context_parallel_method=ulysses",
                                "parallelism.ulysses_degree_in_cp=2"})),
              HasError("parallelism.ulysses_degree_in_cp", "must be context_parallel (4) or null"));
}

TEST(Validate, HybridDegree) {
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

TEST(Validate, HeadsOfATensorParallelRankDivideByTheUlyssesDegree) {
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
  EXPECT_THAT(check_base(8, {"parallelism.context_parallel=8",
                             "parallelism.context_parallel_method=hybrid",
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

TEST(Validate, LengthMustDivide) {
  EXPECT_THAT(check_base(4, length(63)),
              HasError("parallelism.context_parallel",
                       "must divide seq_length (63); nearest legal: 1, 3, 7, 9, 21, 63; or "
                       "seq_length 60, 64"));
  EXPECT_THAT(check_base(4, length(4)), HasNoErrors());
  EXPECT_THAT(check_base(4, length(60)), HasNoErrors());
  EXPECT_THAT(format_issues(check_base(4, length(60))),
              ::testing::HasSubstr("2 x context_parallel (8) does not divide seq_length (60): ranks "
                                   "take contiguous pieces"));
  EXPECT_THAT(check_base(4, length(60, {"parallelism.context_parallel_balance=head_tail"})),
              HasError("parallelism.context_parallel_balance", "or seq_length 56, 64"));
}

TEST(Validate, ContextParallelNeedsACompressedMask) {
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

TEST(Validate, ColossalAndAsyncRuns) {
  EXPECT_THAT(check_base(4, cp({"parallelism.context_parallel_async=true"})), HasNoErrors());
}

// Pipeline.

Sets pp(int64_t stages, const std::string& layers, const Sets& more = {}) {
  Sets sets = {"parallelism.pipeline_parallel=" + std::to_string(stages)};
  if (!layers.empty()) sets.push_back("parallelism.pipeline_parallel_layers_per_stage=" + layers);
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

constexpr const char* kLayers = "parallelism.pipeline_parallel_layers_per_stage";

TEST(Validate, LayersPerStageIsNeededAndChecked) {
  EXPECT_THAT(check_base(4, pp(4, "")), HasError(kLayers, R"(nearest legal: auto, or ["0", "1")"));
  EXPECT_THAT(check_base(4, pp(4, "auto")), HasNoErrors());
  EXPECT_THAT(check_base(2, pp(2, "auto", {"model.num_hidden_layers=10",
                                           "parallelism.pipeline_parallel_interleave_num=2"})),
              HasError(kLayers, R"(for example ["0-2, 5-6", "3-4, 7-9"])"));
  EXPECT_THAT(check_base(2, pp(2, "['0-1', '3']")),
              HasError(std::string(kLayers) + "[1]", "\"3\": layer 2 missing before"));
  EXPECT_THAT(check_base(2, pp(2, "[[0, 1], [2, 3]]")), HasError(kLayers, "item 0 must be str"));
  EXPECT_THAT(check_base(2, pp(2, "none")), HasError(kLayers, "must be auto or list of str"));
  EXPECT_THAT(check_base(8, pp(8, "auto")),
              HasError("parallelism.pipeline_parallel", "must not exceed num_hidden_layers (4)"));
}

TEST(Validate, LinesOfLayerRangesAreTheirOwn) {
  const std::string text = std::string(kBase) +
      "parallelism:\n  pipeline_parallel: 2\n  pipeline_parallel_layers_per_stage:\n"
      "    - \"0-1\"\n    - \"3\"\n";
  const auto issues = check_text(text, 2).issues;
  ASSERT_EQ(count(issues, Severity::kError), 1) << format_issues(issues);
  EXPECT_EQ(issues[0].source.line,
            static_cast<int>(std::count(text.begin(), text.end(), '\n')));
}

TEST(Validate, FewMicroBatchesAreNamed) {
  EXPECT_THAT(check_base(4, pp(4, "auto", {"training.global_batch_size=2"})),
              HasWarning("parallelism.pipeline_parallel", "idle time / work = 1.5"));
  EXPECT_THAT(check_base(2, pp(2, "auto", {"training.global_batch_size=1",
                                           "parallelism.pipeline_parallel_interleave_num=2"})),
              HasWarning("parallelism.pipeline_parallel", "idle time / work = 1;"));
  EXPECT_EQ(count(check_base(2, pp(2, "auto")), Severity::kWarning), 0);
}

TEST(Validate, MicroBatchesNeedNotDivide) {
  EXPECT_THAT(check_base(2, pp(2, "auto", {"training.global_batch_size=5"})), HasNoErrors());
}

TEST(Validate, ReservedFieldsSayWhatHappens) {
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

// Experts.

TEST(Validate, ExpertParallelDividesRanksAndExperts) {
  EXPECT_THAT(check_base(8, moe({"parallelism.expert_parallel=3"})),
              HasError("parallelism.expert_parallel",
                       "must divide dp_shard x cp x tp (8 x 1 x 1 = 8); experts are spread inside "
                       "one replica; nearest legal: 1, 2, 4, 8"));
  EXPECT_THAT(check_base(4, moe({"parallelism.expert_parallel=4", "model.num_experts=6"})),
              HasError("parallelism.expert_parallel",
                       "must divide n_routed_experts (6); nearest legal: 1, 2, 3, 6"));
  EXPECT_THAT(check_base(8, moe({"parallelism.expert_parallel=2", "model.num_experts=4"})),
              HasNoErrors());
  EXPECT_THAT(check_base(8, {"parallelism.expert_parallel=2"}),
              HasError("parallelism.expert_parallel", "must be 1 for llama"));
}

TEST(Validate, DeredundancyNeedsWholeNodes) {
  const Sets sets = {"parallelism.moe_token_dispatcher_type=alltoall_deredundancy",
                     "parallelism.npu_nums_per_device=4"};
  const auto with = [&](const std::string& ep) {
    Sets all = moe(sets);
    all.push_back("parallelism.expert_parallel=" + ep);
    return all;
  };
  EXPECT_THAT(check_base(8, with("2")),
              HasError("parallelism.expert_parallel",
                       "must be a multiple of npu_nums_per_device (4)"));
  EXPECT_THAT(check_base(8, with("4")), HasNoErrors());
  EXPECT_THAT(check_base(6, moe({"parallelism.moe_token_dispatcher_type=alltoall_deredundancy",
                                 "parallelism.npu_nums_per_device=4", "model.num_experts=6",
                                 "training.global_batch_size=6", "parallelism.expert_parallel=6"})),
              HasError("parallelism.expert_parallel", "nearest legal: 4, 8"));
  const Checked checked = check_text(kBase, 8, with("4"));
  EXPECT_THAT(validate(checked.result.config, checked.result.provenance, 8, 8),
              HasWarning("parallelism.npu_nums_per_device", "the workers of a node are 8"));
}

TEST(Validate, Router) {
  EXPECT_THAT(check_base(1, moe({"model.num_experts_per_tok=9"})),
              HasError("model.num_experts_per_tok", "must not exceed n_routed_experts (8)"));
  EXPECT_THAT(check_base(1, moe({"model.n_group=3", "model.topk_group=1"})),
              HasError("model.n_group", "must divide n_routed_experts (8); nearest legal: 1, 2, 4"));
  EXPECT_THAT(check_base(1, moe({"model.n_group=8", "model.topk_group=1"})),
              HasError("model.n_group", "two experts a group"));
  EXPECT_THAT(check_base(1, moe({"model.n_group=2", "model.topk_group=3"})),
              HasError("model.topk_group", "must not exceed n_group (2)"));
  EXPECT_THAT(check_base(1, moe({"model.n_group=4", "model.topk_group=1",
                                 "model.num_experts_per_tok=3"})),
              HasError("model.num_experts_per_tok", "experts of topk_group groups (2)"));
  EXPECT_THAT(check_base(1, moe({"model.topk_group=2"})), HasError("model.topk_group", "needs n_group"));
  EXPECT_THAT(check_base(1, moe({"model.moe_router_enable_expert_bias=true"})),
              HasError("model.moe_router_enable_expert_bias", "sigmoid or sqrtsoftplus"));
  EXPECT_THAT(check_base(1, moe({"model.moe_apply_probs_on_input=true"})),
              HasError("model.moe_apply_probs_on_input", "needs num_experts_per_tok 1"));
  EXPECT_THAT(check_base(1, moe({"model.num_experts_per_tok=1"})),
              HasWarning("model.norm_topk_prob", "no gradient"));
  EXPECT_THAT(check_base(1, {"model.model_type=qwen3_moe"}),
              HasError("model.n_routed_experts", "is needed for qwen3_moe"));
  EXPECT_THAT(check_base(1, {"model.num_experts=8"}),
              HasError("model.n_routed_experts", "must be 0 or left out for llama"));
}

TEST(Validate, AuxiliaryLoss) {
  EXPECT_THAT(check_base(1, moe({"model.moe_aux_loss_coeff=0.01"})), HasNoErrors());
  EXPECT_THAT(check_base(1, moe({"model.moe_router_load_balancing_type=sub_seq_aux_loss"})),
              HasNoErrors());
  EXPECT_THAT(check_base(1, moe({"model.moe_router_load_balancing_type=sub_seq_aux_loss",
                                 "model.moe_aux_loss_coeff=0.01"})),
              HasError("model.moe_router_load_balancing_type", "aux_loss, seq_aux_loss"));
  const Sets global = moe({"model.moe_router_load_balancing_type=global_aux_loss",
                           "model.moe_aux_loss_coeff=0.01"});
  EXPECT_THAT(check_base(8, global), HasNoErrors());
  EXPECT_THAT(check_base(4, global),
              HasError("model.moe_router_load_balancing_type",
                       "global_aux_loss needs one micro-batch a step (here 2)"));
}

TEST(Validate, LayersWithExperts) {
  EXPECT_THAT(check_base(1, moe({"model.moe_layer_freq=0"})),
              HasError("model.moe_layer_freq", "must be at least 1"));
  EXPECT_THAT(check_base(1, moe({"model.moe_layer_freq=[0, 1, 1]"})),
              HasError("model.moe_layer_freq", "needs one entry a layer (4), has 3"));
  EXPECT_THAT(check_base(1, moe({"model.moe_layer_freq=[0, 1, 2, 1]"})),
              HasError("model.moe_layer_freq", "entries must be 0 (dense) or 1"));
  EXPECT_THAT(check_base(1, deepseek({"model.moe_layer_freq=2"})),
              HasError("model.moe_layer_freq", "must be 1 with first_k_dense_replace"));
  EXPECT_THAT(check_base(1, deepseek({"model.moe_layer_freq=[1, 1, 1, 1]"})),
              HasError("model.moe_layer_freq", "contradicts first_k_dense_replace at layer 0"));
  EXPECT_THAT(check_base(1, deepseek({"model.moe_layer_freq=[0, 1, 1, 1]"})), HasNoErrors());
  EXPECT_THAT(check_base(1, deepseek({"model.first_k_dense_replace=5"})),
              HasError("model.first_k_dense_replace", "must not exceed num_hidden_layers (4)"));
  EXPECT_THAT(check_base(1, moe({"model.mlp_only_layers=[4]"})),
              HasError("model.mlp_only_layers", "names layer 4 of 4"));
}

// Model.

TEST(Validate, Heads) {
  EXPECT_THAT(check_base(1, {"model.num_key_value_heads=3"}),
              HasError("model.num_key_value_heads",
                       "must divide num_attention_heads (8); nearest legal: 1, 2, 4, 8"));
  EXPECT_THAT(check_base(1, {"model.head_dim=7"}), HasError("model.head_dim", "must be even"));
  EXPECT_THAT(check_base(1, deepseek({"model.num_key_value_heads=4"})),
              HasError("model.num_key_value_heads", "must be num_attention_heads (8)"));
}

TEST(Validate, LatentAttention) {
  EXPECT_THAT(check_base(1, deepseek({"model.qk_rope_head_dim=7"})),
              HasError("model.qk_rope_head_dim", "must be even"));
  EXPECT_THAT(check_base(1, deepseek({"model.v_head_dim=32"})),
              HasError("model.v_head_dim", "must not exceed qk_nope_head_dim + qk_rope_head_dim (24)"));
  EXPECT_THAT(check_base(1, deepseek({"model.q_lora_rank=null"})), HasNoErrors());
}

TEST(Validate, RotaryScaling) {
  EXPECT_THAT(check_base(1, {"model.rope_scaling={rope_type: linear}"}),
              HasError("model.rope_scaling.factor", "is needed with rope_type linear"));
  EXPECT_THAT(check_base(1, {"model.rope_scaling={type: linear, factor: 2}"}), HasNoErrors());
  EXPECT_THAT(check_base(1, {"model.rope_scaling={rope_type: dynamic, factor: 2}"}),
              HasError("model.rope_scaling.rope_type", "must be one of default, linear, llama3, yarn"));
  EXPECT_THAT(check_base(1, {"model.rope_scaling={rope_type: linear, factor: 0.5}"}),
              HasError("model.rope_scaling.factor", "must be at least 1"));
  EXPECT_THAT(check_base(1, {"model.rope_scaling={rope_type: llama3, factor: 8}"}),
              HasError("model.rope_scaling.original_max_position_embeddings", "is needed"));
  EXPECT_THAT(check_base(1, {"model.rope_scaling={rope_type: llama3, factor: 8, "
                             "low_freq_factor: 4, original_max_position_embeddings: 64}"}),
              HasError("model.rope_scaling.low_freq_factor", "must be below high_freq_factor"));
  EXPECT_THAT(check_base(1, {"model.position_embedding_type=yarn",
                             "model.rope_scaling={rope_type: linear, factor: 2}"}),
              HasError("model.position_embedding_type", "does not fit model.rope_scaling.rope_type"));
  EXPECT_THAT(check_base(1, deepseek({"model.rope_scaling={type: yarn, factor: 4}",
                                      "model.rotary_scaling_factor=8.0"})),
              HasError("model.rotary_scaling_factor", "must agree with rope_scaling"));
}

TEST(Validate, FamilyKeys) {
  EXPECT_THAT(check_base(1, {"model.model_type=gpt2"}),
              HasError("model.model_type", "must be one of llama, qwen3, qwen3_moe, deepseek_v3"));
  EXPECT_THAT(check_base(1, {"model.qk_layernorm=true"}),
              HasError("model.qk_layernorm", "must be false for llama"));
  EXPECT_THAT(check_base(1, {"model.model_type=qwen3", "model.mlp_bias=true"}),
              HasError("model.mlp_bias", "must be false for qwen3"));
  EXPECT_THAT(check_base(1, {"model.model_type=qwen3", "model.qk_layernorm=false"}),
              HasWarning("model.qk_layernorm", "always norms"));
  EXPECT_THAT(check_base(1, {"model.architectures=Qwen3ForCausalLM"}),
              HasError("model.model_type", "does not fit architectures = Qwen3ForCausalLM"));
  EXPECT_THAT(check_base(1, {"model.architectures=GPT2LMHeadModel"}),
              HasError("model.architectures", "must be one of LlamaForCausalLM"));
  EXPECT_THAT(check_base(1, {"model.num_nextn_predict_layers=1"}),
              HasError("model.num_nextn_predict_layers", "must be 0 for llama"));
  EXPECT_THAT(check_base(1, deepseek({"model.num_nextn_predict_layers=1"})),
              HasError("model.mtp_loss_factor", "is needed"));
  EXPECT_THAT(check_base(1, {"model.compute_dtype=float16"}),
              HasError("model.compute_dtype", "without loss scaling"));
}

// Optimizer and schedule.

TEST(Validate, Optimizer) {
  EXPECT_THAT(check_base(1, {"optimizer.betas=[0.9]"}), HasError("optimizer.betas", "exactly two"));
  EXPECT_THAT(check_base(1, {"optimizer.betas=[0.9, 1.0]"}),
              HasError("optimizer.betas", "at least 0 and below 1"));
  EXPECT_THAT(check_base(1, {"optimizer.momentum=1.0"}), HasError("optimizer.momentum", "below 1"));
  EXPECT_THAT(check_base(1, {"optimizer.weight_decay_exclude=['']"}),
              HasError("optimizer.weight_decay_exclude", "every parameter"));
  EXPECT_THAT(check_base(1, {"optimizer.weight_decay_include=bias"}),
              HasError("optimizer.weight_decay_include", "must be list of str"));
  EXPECT_THAT(check_base(1, {"optimizer.betas=[0.9, 0.9]"}), NamesNoEffect("optimizer.betas"));
}

TEST(Validate, Schedules) {
  const auto lr = [](const std::string& text) {
    return check_base(1, {"lr_scheduler={" + text + "}"});
  };
  EXPECT_THAT(lr("type: ConstantWarmUpLR"), HasError("lr_scheduler.warmup_steps", "is needed"));
  EXPECT_THAT(lr("type: ConstantWarmUpLR, warmup_ratio: 0.1"), HasNoErrors());
  EXPECT_THAT(lr("type: CosineWithWarmUpLR, learning_rate: 1e-3"), HasNoErrors());
  EXPECT_THAT(lr("type: CosineWithWarmUpLR, power: 2.0"),
              HasError("lr_scheduler.power", "is no key of CosineWithWarmUpLR"));
  EXPECT_THAT(lr("type: PolynomialWithWarmUpLR, learning_rate: 1e-7, warmup_steps: 0"),
              HasError("lr_scheduler.learning_rate", "must be above lr_end"));
  EXPECT_THAT(lr("type: WarmUpStableDecayLR, warmup_steps: 2"),
              HasError("lr_scheduler.decay_start_steps", "is needed"));
  EXPECT_THAT(lr("type: WarmUpStableDecayLR, warmup_steps: 4, decay_start_steps: 2"),
              HasError("lr_scheduler.decay_start_steps", "before the end of the warm-up (4)"));
  EXPECT_THAT(lr("type: ConstantWithCoolDownLR, warmup_steps: 0"),
              HasError("lr_scheduler.decay_steps", "is needed"));
  EXPECT_THAT(lr("type: CosineAnnealingLR, learning_rate: 0.1, t_max: 5"), HasNoErrors());
  EXPECT_THAT(lr("type: CosineAnnealingLR, learning_rate: 0.1, base_lr: 0.2"),
              HasError("lr_scheduler.base_lr", "disagrees with learning_rate"));
  EXPECT_THAT(lr("type: CosineAnnealingLR, t_max: 5"), HasError("lr_scheduler.base_lr", "is needed"));
  EXPECT_THAT(lr("type: CosineAnnealingWarmRestarts, base_lr: 0.1"),
              HasError("lr_scheduler.t_0", "is needed"));
  EXPECT_THAT(lr("type: ConstantWarmUpLR, warmup_steps: 11"),
              HasWarning("lr_scheduler.warmup_steps", "never reached"));
  EXPECT_THAT(lr("type: ConstantWarmUpLR, warmup_steps: 0, total_steps: 5"),
              NamesNoEffect("lr_scheduler.total_steps"));
}

TEST(Validate, ScheduleDefaultsFollowTheType) {
  const auto lr = [](const std::string& text) {
    return check_text(kBase, 1, {"lr_scheduler={" + text + "}"}).result.config.lr_scheduler;
  };
  EXPECT_EQ(lr("type: CosineWithWarmUpLR").num_cycles, 0.5);
  EXPECT_EQ(lr("type: CosineWithRestartsAndWarmUpLR").num_cycles, 1.0);
  EXPECT_EQ(lr("type: PolynomialWithWarmUpLR").lr_end, 1e-7);
  EXPECT_EQ(lr("type: ConstantWarmUpLR, warmup_ratio: 0.39, warmup_steps: 7").warmup_steps, 3);
  EXPECT_EQ(lr("type: ConstantWithCoolDownLR, lr_end1: 0.5").lr_end2, 0.5);
  EXPECT_EQ(lr("type: CosineAnnealingLR, learning_rate: 0.25").base_lr, 0.25);
}

// Data.

TEST(Validate, Data) {
  const std::string c = "train_dataset.dataloader.config.";
  const auto data = [&](const Sets& sets) {
    Sets full;
    for (const std::string& set : sets) full.push_back(c + set);
    return check_base(1, full);
  };
  EXPECT_THAT(data({"data_path=null"}), HasError(c + "data_path", "is needed"));
  EXPECT_THAT(data({"data_path=[]"}), HasError(c + "data_path", "at least one token file"));
  EXPECT_THAT(data({"data_path=[0.5, a, b, c]"}), HasError(c + "data_path", "mixes weights and names"));
  EXPECT_THAT(data({"data_path=[-0.5, a]"}), HasError(c + "data_path", "at least 0"));
  EXPECT_THAT(data({"data_path=[0, a, 0.0, b]"}), HasError(c + "data_path", "must not all be 0"));
  EXPECT_THAT(data({"data_path=[0.5, 0.5]"}), HasError(c + "data_path", "the number 0.5"));
  EXPECT_THAT(data({"data_path=['s3://x/y']"}), HasError(c + "data_path", "must be local"));
  EXPECT_THAT(data({"data_path=[0.5, a, 0.5, b]"}), HasNoErrors());
  EXPECT_THAT(data({"data_path=[a, b]"}), HasNoErrors());
  EXPECT_THAT(data({"train_data_path=[a]"}), HasError(c + "data_path", "excludes train_data_path"));
  EXPECT_THAT(data({"data_path=null", "train_data_path=[a]"}),
              HasError(c + "split", "excludes train_data_path"));
  EXPECT_THAT(data({"data_path=null", "train_data_path=[a]", "split=null"}), HasNoErrors());
  EXPECT_THAT(data({"split=null"}), HasError(c + "split", "is needed with data_path"));
  EXPECT_THAT(data({"split='0,1,0'"}), HasError(c + "split", "something for training"));
  EXPECT_THAT(data({"split='1,-1,0'"}), HasError(c + "split", "negative"));
  EXPECT_THAT(data({"split='1,1,1,1'"}), HasError(c + "split", "one to three numbers"));
  EXPECT_THAT(data({"split=none"}), HasError(c + "split", "one to three numbers"));
  EXPECT_THAT(data({"split=[949, 50, 1]"}), HasNoErrors());
  EXPECT_THAT(data({"split='[949,50,1]'"}), HasNoErrors());
  EXPECT_THAT(data({"eod=512"}), HasError(c + "eod", "must be below vocab_size (512)"));
  EXPECT_THAT(data({"pad=512"}), HasError(c + "pad", "must be below vocab_size (512)"));
  EXPECT_THAT(data({"eod=-1", "reset_attention_mask=true"}),
              HasError(c + "eod", "with reset_attention_mask"));
  EXPECT_THAT(data({"eod=-1", "create_compressed_eod_mask=true"}),
              HasError(c + "eod", "with create_compressed_eod_mask"));
  EXPECT_THAT(check_base(1, {"model.seq_length=32"}),
              HasError("model.seq_length", "must be the data's seq_length (64)"));
  EXPECT_THAT(check_base(1, {"train_dataset.dataloader.sizes=[0, 0, 0]"}),
              HasError("train_dataset.dataloader.sizes", "for training"));
  EXPECT_THAT(check_base(1, {"train_dataset.dataloader.sizes=[1, 2, 3, 4]"}),
              HasError("train_dataset.dataloader.sizes", "at most three"));
  EXPECT_THAT(check_base(1, {"train_dataset.dataloader.column_names=[ids]"}),
              HasError("train_dataset.dataloader.column_names[0]", "must be one of input_ids"));
}

TEST(Validate, SeqLengthOfTheDataIsNeeded) {
  std::string text(kBase);
  const std::string line = "      seq_length: 64\n";
  text.erase(text.find(line), line.size());
  EXPECT_THAT(check_text(text, 1).issues,
              HasError("train_dataset.dataloader.config.seq_length", "is needed"));
}

TEST(Validate, CompressedEodMaskSwitchesTheModelToo) {
  const Checked checked =
      check_text(kBase, 1, {"train_dataset.dataloader.config.create_compressed_eod_mask=true"});
  EXPECT_TRUE(checked.result.config.model.use_eod_attn_mask_compression);
}

// Recompute.

TEST(Validate, Recompute) {
  EXPECT_THAT(check_base(1, {"recompute.mode=full"}),
              HasError("recompute.full_recompute_layer", "is needed with mode full"));
  EXPECT_THAT(check_base(1, {"recompute.mode=select"}),
              HasError("recompute.select_module", "is needed with mode select"));
  EXPECT_THAT(check_base(1, {"recompute.mode=full", "recompute.full_recompute_layer=['0-3']"}),
              HasNoErrors());
  EXPECT_THAT(check_base(1, {"recompute.mode=full", "recompute.full_recompute_layer=['0-4']"}),
              HasError("recompute.full_recompute_layer", "beyond the last layer, 3"));
  EXPECT_THAT(check_base(1, {"recompute.mode=full", "recompute.full_recompute_layer=['2', '1']"}),
              HasError("recompute.full_recompute_layer", "must come after"));
  EXPECT_THAT(check_base(1, {"recompute.mode=select",
                             "recompute.select_module={mlp: ['0-1'], self_attention: ['9']}"}),
              HasError("recompute.select_module", "self_attention: \"9\" goes beyond"));
  EXPECT_THAT(check_base(1, deepseek({"recompute.mode=full", "model.num_nextn_predict_layers=1",
                                      "model.mtp_loss_factor=0.1",
                                      "recompute.full_recompute_layer=['0-4']"})),
              HasNoErrors());
  EXPECT_THAT(check_base(1, {"recompute_comm.enable=true"}),
              HasError("recompute_comm.select_module", "is needed"));
  EXPECT_THAT(check_base(1, {"recompute.exclude_op=['']"}),
              HasError("recompute.exclude_op", "empty name"));
}

// What has no effect.

TEST(Validate, KeysWithoutEffectAreNamedInOneLine) {
  const auto issues = check_base(
      1, {"context.mode=1", "context.max_device_memory=59GB", "checkpoint.load_worker_number=2",
          "train_dataset.num_parallel_workers=4", "parallelism.sequence_parallel=true",
          "parallelism.enable_mc2=true", "parallelism.cpu_offload=true",
          "parallelism.ulysses_degree_in_cp=2", "training.deterministic=true",
          "callbacks=[{type: MaxLogitsMonitor, step_interval: 1}]",
          "monitor.train_state.local_norm=true", "model.apply_rope_fusion=true",
          "train_dataset.drop_remainder=false"});
  EXPECT_EQ(count(issues, Severity::kNote), 1);
  for (const char* key :
       {"context.mode", "context.max_device_memory", "checkpoint.load_worker_number",
        "train_dataset.num_parallel_workers", "parallelism.sequence_parallel",
        "parallelism.enable_mc2", "parallelism.cpu_offload", "parallelism.ulysses_degree_in_cp",
        "training.deterministic", "callbacks", "monitor.train_state.local_norm",
        "model.apply_rope_fusion", "train_dataset.drop_remainder"}) {
    EXPECT_THAT(issues, NamesNoEffect(key));
  }
  EXPECT_THAT(issues, HasNoErrors());
}

TEST(Validate, ColossalNamesTheUlyssesDegree) {
  EXPECT_THAT(check_base(4, cp({"parallelism.ulysses_degree_in_cp=4"})),
              NamesNoEffect("parallelism.ulysses_degree_in_cp"));
}

TEST(Validate, KeysOfAnotherFamilyAreNamed) {
  EXPECT_THAT(check_base(1, {"model.kv_lora_rank=8"}), NamesNoEffect("model.kv_lora_rank"));
  EXPECT_THAT(check_base(1, {"model.norm_topk_prob=true"}), NamesNoEffect("model.norm_topk_prob"));
}

TEST(Validate, EveryErrorHasItsPlace) {
  const auto issues = check_text(kBase, 6, {}).issues;
  for (const Issue& issue : issues) EXPECT_EQ(issue.source.file, "x.yaml");
  EXPECT_THAT(check_text(kBase, 8, {"parallelism.tensor_parallel=3"}).issues,
              HasError("parallelism.tensor_parallel", "--set parallelism.tensor_parallel=3: "));
}

}  // namespace
}  // namespace tessera
