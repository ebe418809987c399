// A file with the keys of the reference's own DeepSeek-V3 file, and with sizes made small, is read
// without an error and trains on eight ranks what it trains on one.

#include <gtest/gtest.h>

#include "tessera/config/load.h"
#include "tessera/rules/validate.h"
#include "tessera/train/parity/parity.h"
#include "tests/support/case_path.h"

namespace tessera::test {
namespace {

constexpr const char* kFile = R"(
checkpoint: {enable_save: False, save_path: ./c, save_max: 1, save_interleaved_steps: 100,
             no_save_optim: False, async_save: False, prefix: deepseekv3, remove_redundancy: False,
             load_path: "", load_balanced: False, no_load_optim: True, load_worker_number: 1}
training: {steps: 5, local_batch_size: 1, global_batch_size: 8, max_norm: 1.0, seed: 42,
           deterministic: True}
optimizer: {type: AdamW, betas: [0.9, 0.95], eps: 1.e-8, weight_decay: 0.01}
lr_scheduler: {type: ConstantWarmUpLR, learning_rate: 1.e-3, warmup_ratio: 0, lr_end: 1.e-5,
               total_steps: -1}
parallelism: {data_parallel_shard: -1, data_parallel_shard_strategy: optim_grads_params,
              disable_gradient_division: True, expert_parallel: 1, tensor_parallel: 1,
              context_parallel: 1, context_parallel_method: colossal, pipeline_parallel: 1,
              pipeline_parallel_schedule: 1f1b, pipeline_parallel_interleave_num: 1,
              pipeline_parallel_layers_per_stage: null, sequence_parallel: true,
              moe_token_dispatcher_type: alltoall}
train_dataset:
  dataloader:
    type: BlendedMegatronDatasetDataLoader
    datasets_type: GPTDataset
    sizes: [48, 0, 0]
    config: {split: "1, 0, 0", seq_length: 64, eod_mask_loss: false, reset_position_ids: false,
             create_attention_mask: false, reset_attention_mask: false,
             create_compressed_eod_mask: false, eod_pad_length: 128, eod: 1, pad: -1,
             data_path: ["1", data/train]}
    column_names: [input_ids, labels, loss_mask, position_ids]
    shuffle: false
    python_multiprocessing: False
  drop_remainder: True
  num_parallel_workers: 8
  prefetch_size: 1
  numa_enable: False
model: {model_type: deepseek_v3, architectures: DeepseekV3ForCausalLM, vocab_size: 256,
        seq_length: 64, hidden_size: 32, intermediate_size: 48, num_hidden_layers: 3,
        max_position_embeddings: 163840, hidden_act: silu, num_attention_heads: 4,
        rms_norm_eps: 1.e-6, add_bias_linear: False, use_flash_attention: True,
        multi_latent_attention: True, mla_qkv_concat: True, fused_norm: True, kv_lora_rank: 16,
        q_lora_rank: 24, qk_rope_head_dim: 8, v_head_dim: 24, qk_nope_head_dim: 16,
        qk_layernorm: True, attention_dropout: 0.0, hidden_dropout: 0.0, params_dtype: bfloat16,
        compute_dtype: bfloat16, layernorm_compute_dtype: float32, softmax_compute_dtype: float32,
        rotary_dtype: float32, initializer_range: 0.1, num_nextn_predict_layers: 1,
        mtp_loss_scaling_factor: 0.3, position_embedding_type: yarn, scaling_factor: 40,
        beta_fast: 32, beta_slow: 1, mscale: 1, mscale_all_dim: 1, rope_theta: 10000,
        router_dense_type: float32, gated_linear_unit: True, moe_intermediate_size: 16,
        routed_scaling_factor: 2.5, first_k_dense_replace: 1, n_routed_experts: 8,
        num_experts_per_tok: 4, n_shared_experts: 1, moe_shared_expert_intermediate_size: 16,
        moe_grouped_gemm: True, moe_router_load_balancing_type: seq_aux_loss,
        moe_aux_loss_coeff: 0.001, scoring_func: sigmoid, norm_topk_prob: True,
        moe_token_drop_policy: probs, moe_router_enable_expert_bias: True,
        moe_router_bias_update_rate: 0.001, use_pad_tokens: True, topk_group: 2, n_group: 4}
)";

TEST(ShippedKeys, DeepSeekTrainsOnEightRanksAsOnOne) {
  for (const char* degree : {"parallelism.expert_parallel=1", "parallelism.expert_parallel=4"}) {
    const ConfigResult read =
        load_config_text(kFile, "shipped.yaml", case_path("llama_sgd64").string(), {degree});
    std::vector<Issue> issues = validate(read, 8);
    ASSERT_FALSE(has_errors(issues)) << format_issues(issues);
    ParityOptions options;
    options.ranks = 8;
    options.steps = 5;
    const ParityReport report = run_parity(read.config, options);
    EXPECT_TRUE(report.passed()) << parity_text(report);
    EXPECT_EQ(report.losses.size(), 5);
  }
}

// Parity holds with a batch that grows, and with what is kept of recomputation.
TEST(ShippedKeys, ParityOfAGrowingBatch) {
  const ConfigResult read =
      load_config_text(kFile, "shipped.yaml", case_path("llama_sgd64").string(),
                       {"parallelism.pipeline_parallel=2",
                        "parallelism.pipeline_parallel_layers_per_stage=['0-1', "
                        "'2']",
                        "parallelism.tensor_parallel=2", "training.global_batch_size=12",
                        "training.rampup_batch_size=[4, 4, 16]",
                        "recompute={mode: full, full_recompute_layer: ['0-3'], exclude_op: "
                        "{self_attention.core_attention: ['0-3'], mlp.experts: ['1-2']}}"});
  const std::vector<Issue> issues = validate(read, 8);
  ASSERT_FALSE(has_errors(issues)) << format_issues(issues);
  ParityOptions options;
  options.ranks = 8;
  options.steps = 4;
  const ParityReport report = run_parity(read.config, options);
  EXPECT_TRUE(report.passed()) << parity_text(report);
}

}  // namespace
}  // namespace tessera::test
