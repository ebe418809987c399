// One test per rule: the base file with one thing wrong. Single values, and what has no effect.

#include "tessera/rules/validate.h"
#include "tests/config/config_testing.h"

namespace tessera {
namespace {

using namespace testing_config;
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
      {"training.rampup_batch_size=[2, 2, 100]", "its first batch must be a multiple of data"},
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
      {"optimizer.type=Muom", "nearest legal: Muon"},
      {"optimizer.eps=-1e-8", "must be at least 0"},
      {"optimizer.weight_decay=-0.1", "must be at least 0"},
      {"optimizer.momentum=-0.1", "must be between 0 and 1"},
      {"optimizer.moment_dtype=fp8", "must be one of float32, bfloat16, int8"},
      {"optimizer.matched_adamw_rms=0", "must be above 0"},
      {"optimizer.ns_steps=0", "must be between 1 and"},
      {"optimizer.ns_coefficients=[1.0, 2.0]", "must be three numbers"},
      {"optimizer.ns_coefficients=[[[1.0, 2.0, 3.0], 0]]", "count must be at least 1"},
      {"optimizer.ns_coefficients=[[1.0, 2.0, 3.0]]", "must be [[a, b, c], count]"},
      {"optimizer.ns_coefficients=[]", "must be three numbers"},
      {"optimizer.adamw_betas=[0.9]", "must be exactly two numbers"},
      {"optimizer.adamw_betas=[0.9, 1.0]", "below 1 each"},
      {"optimizer.adamw_include=['']", "an empty rule would match every parameter"},
      {"optimizer.qk_clip_threshold=0", "must be above 0"},
      {"optimizer.comm_strategy=gather", "must be one of allgather, allgather_deredundency"},
      {"lr_scheduler.type=Cosine", "must be one of ConstantWarmUpLR"},
      {"lr_scheduler.learning_rate=-1.0", "must be at least 0"},
      {"lr_scheduler.warmup_steps=-1", "must be at least 0"},
      {"lr_scheduler.warmup_ratio=1.5", "must be between 0 and 1"},
      {"train_dataset.dataloader.type=MindDataset", "MindDataset is not built"},
      {"train_dataset.dataloader.datasets_type=BERTDataset",
       "must be one of GPTDataset, SFTDataset"},
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
      {"model.sliding_window=128", "has no windows"},
      {"model.window_size=[1023, 0]", "must be int"},
      {"model.gated_linear_unit=false", "is not built; only true"},
      {"model.attention_dropout=0.1", "is not built; only 0.0"},
      {"model.hidden_dropout=1.5", "must be between 0 and 1"},
      {"model.initializer_range=-0.02", "must be at least 0"},
      {"model.use_sliding_window=true", "has no windows"},
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
  EXPECT_THAT(check_base(8, {"train_dataset.dataloader.phase=eval"}),
              HasError("train_dataset.dataloader.phase", "must be train"));
  EXPECT_THAT(check_base(8, {"run_mode=predict"}), HasError("run_mode", "trains nothing"));
  EXPECT_THAT(check_base(8, {"profiler.start_step=0"}),
              HasError("profiler.start_step", "must be at least 1"));
  EXPECT_THAT(check_base(8, {"model.layer_types=[full_attention, sliding_attention]"}),
              HasError("model.layer_types", "has no windows"));
}

TEST(Validate, KeysOfMuon) {
  const auto issues = check_base(
      1, {"optimizer.type=Muon", "optimizer.comm_strategy=allgather_deredundency",
          "optimizer.ns_coefficients=[[[3.4445, -4.775, 2.0315], 8], [[2.0, -1.5, 0.5], 2]]",
          "optimizer.adamw_include='*embed_tokens*'", "optimizer.ns_steps=5",
          "optimizer.betas=[0.9, 0.9]", "optimizer.amsgrad=true"});
  EXPECT_THAT(issues, HasNoErrors());
  for (const char* key :
       {"optimizer.comm_strategy", "optimizer.ns_steps", "optimizer.betas", "optimizer.amsgrad"}) {
    EXPECT_THAT(issues, NamesNoEffect(key));
  }
  for (const char* key : {"optimizer.adamw_include", "optimizer.ns_coefficients"}) {
    EXPECT_THAT(issues, testing::Not(NamesNoEffect(key)));
  }
}

TEST(Validate, OptimizersOnDevices) {
  const std::string gpu = "context.device_target=GPU", adamw = "optimizer.type=AdamW";
  for (const char* set : {"optimizer.enable_cpu_offload=true", "optimizer.moment_dtype=int8"}) {
    const std::string field = std::string(set).substr(0, std::string(set).find('='));
    EXPECT_THAT(check_base(8, {gpu, adamw, set}), HasError(field, "CUDA device"));
    EXPECT_THAT(check_base(8, {"context.device_target=CPU", adamw, set}), HasNoErrors());
  }
}

TEST(Validate, NoModelNoScheduleNoData) {
  const auto issues = check_text("training: {steps: 1}", 1).issues;
  EXPECT_THAT(issues, HasError("model.model_type", "is needed"));
  EXPECT_THAT(issues, HasError("lr_scheduler.type", "is needed"));
  EXPECT_THAT(issues, HasError("train_dataset.dataloader.type", "is needed"));
}

// What has no effect.

TEST(Validate, KeysWithoutEffectAreNamedInOneLine) {
  const auto issues = check_base(
      1, {"context.mode=1", "context.max_device_memory=59GB", "checkpoint.load_worker_number=2",
          "train_dataset.num_parallel_workers=4", "parallelism.sequence_parallel=true",
          "parallelism.enable_mc2=true", "parallelism.cpu_offload=true",
          "optimizer.enable_cpu_offload=true", "optimizer.ns_steps=5",
          "parallelism.ulysses_degree_in_cp=2", "training.deterministic=true",
          "model.apply_rope_fusion=true", "parallelism.disable_gradient_division=false"});
  EXPECT_EQ(count(issues, Severity::kNote), 1);
  for (const char* key :
       {"context.mode", "context.max_device_memory", "checkpoint.load_worker_number",
        "train_dataset.num_parallel_workers", "parallelism.sequence_parallel",
        "parallelism.enable_mc2", "parallelism.cpu_offload", "parallelism.ulysses_degree_in_cp",
        "optimizer.enable_cpu_offload", "optimizer.ns_steps", "training.deterministic",
        "model.apply_rope_fusion", "parallelism.disable_gradient_division"}) {
    EXPECT_THAT(issues, NamesNoEffect(key));
  }
  EXPECT_THAT(issues, HasNoErrors());
}

TEST(Validate, ColossalNamesTheUlyssesDegree) {
  EXPECT_THAT(
      check_base(4, {"parallelism.context_parallel=4", "parallelism.ulysses_degree_in_cp=4"}),
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
