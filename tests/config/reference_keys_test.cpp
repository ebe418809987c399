// The keys that the reference's files may hold, written down here by hand, and what becomes of
// each: the table of fields must know all of them and say the same.

#include <map>
#include <sstream>

#include "tessera/config/fields/field.h"
#include "tests/config/config_testing.h"

namespace tessera {
namespace {

// "section": the keys, each followed by what becomes of it where that is not "honoured":
// - without effect, = fixed, ~ reserved, ! refused because it is part of what is not built.
const std::map<std::string, std::string>& reference_keys() {
  static const std::map<std::string, std::string> keys = {
      {"checkpoint",
       "enable_save save_path save_max save_interleaved_steps no_save_optim async_save prefix "
       "remove_redundancy load_path load_balanced no_load_optim load_worker_number- "
       "save_global_layout_cache- reshard_worker_num= save_trainable_only base_load_path"},
      {"training",
       "steps local_batch_size global_batch_size max_norm seed deterministic= rampup_batch_size "
       "use_skip_step_on_nan max_consecutive_skipped_steps"},
      {"parallelism",
       "data_parallel_shard data_parallel_shard_strategy- reshard_after_forward_policy cpu_offload "
       "disable_gradient_division= dense_fsdp_shard_size tensor_parallel enable_mc2 "
       "enable_loss_parallel sequence_parallel- context_parallel context_parallel_method "
       "context_parallel_async ulysses_degree_in_cp context_parallel_mask_type pipeline_parallel "
       "pipeline_parallel_layers_per_stage pipeline_parallel_interleave_num "
       "pipeline_parallel_overlap_p2p pipeline_parallel_overlap_b_f pipeline_parallel_schedule~ "
       "pipeline_parallel_enable_dxdw_split~ pipeline_parallel_microbatch_size~ "
       "pipeline_parallel_p2p_transport- expert_parallel moe_token_dispatcher_type "
       "npu_nums_per_device expert_parallel_async_d2h- expert_parallel_use_safe_tokens-"},
      {"lr_scheduler",
       "type learning_rate warmup_steps warmup_lr_init warmup_ratio num_cycles lr_end power "
       "decay_steps decay_ratio decay_start_steps decay_start_ratio keep_steps final_steps lr_end1 "
       "lr_end2 base_lr t_max eta_min t_0 t_mult total_steps-"},
      {"train_dataset",
       "drop_remainder num_parallel_workers- prefetch_size- numa_enable- use_distribute_dataset- "
       "balance_enabled"},
      {"train_dataset.dataloader.config",
       "seq_length data_path train_data_path split seed num_dataset_builder_threads path_to_cache "
       "mmap_bin_files- reset_position_ids reset_attention_mask eod_mask_loss "
       "create_attention_mask create_compressed_eod_mask eod_pad_length- "
       "compressed_eod_mask_length- drop_last_partial_validation_sequence- "
       "add_extra_token_to_sequence eod pad s3_cache_path-"},
      {"", "use_remove_redundant_dataset- use_distribute_dataset- callbacks output_dir run_mode"},
      {"model",
       "model_type architectures vocab_size seq_length hidden_size intermediate_size "
       "num_hidden_layers num_attention_heads num_key_value_heads head_dim hidden_act rms_norm_eps "
       "rope_theta max_position_embeddings position_embedding_type attention_bias "
       "attention_dropout! hidden_dropout tie_word_embeddings initializer_range pad_token_id- "
       "ignore_token_id params_dtype embedding_params_dtype compute_dtype layernorm_compute_dtype "
       "rotary_dtype moe_router_dtype router_dense_type add_bias_linear! gated_linear_unit! "
       "normalization use_flash_attention= use_attn_mask_compression qk_layernorm "
       "apply_rope_fusion- apply_residual_connection_post_layernorm! calculate_per_token_loss- "
       "chunk_loss_num q_lora_rank kv_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim "
       "n_routed_experts num_experts_per_tok n_shared_experts moe_intermediate_size "
       "moe_shared_expert_intermediate_size n_group topk_group moe_router_num_groups "
       "moe_router_group_topk routed_scaling_factor norm_topk_prob first_k_dense_replace "
       "moe_layer_freq moe_router_score_function scoring_func moe_router_enable_expert_bias "
       "moe_router_bias_update_rate moe_router_load_balancing_type moe_aux_loss_coeff "
       "moe_z_loss_coeff moe_router_force_expert_balance moe_permute_fusion- moe_grouped_gemm- "
       "use_shared_expert_gating moe_n_hash_layers! actual_vocab_size- num_nextn_predict_layers "
       "mtp_loss_factor mtp_loss_scaling_factor mscale mscale_all_dim beta_fast beta_slow "
       "rotary_scaling_factor scaling_factor- multi_latent_attention mla_qkv_concat- fused_norm- "
       "param_init_std_rules moe_token_drop_policy- moe_expert_capacity_factor- "
       "moe_router_pre_softmax- moe_router_fusion- topk_method- use_pad_tokens- "
       "moe_shared_expert_overlap- print_expert_load- offset- fp32_residual_connection- "
       "softmax_compute_dtype- bias_swiglu_fusion- sequence_parallel- moe_apply_probs_on_input "
       "o_groups! o_lora_rank! num_hash_layers! enable_hyper_connections! num_residual_streams! "
       "mhc_sinkhorn_iterations! mhc_init_gating_factor! index_n_heads! index_head_dim! "
       "index_topk! dsa_indexer_loss_coeff! dsa_indexer_use_sparse_loss! "
       "experimental_attention_variant! compress_ratios! csa_window_size! compress_rope_theta! "
       "csa_dense_mode! apply_dsa_kernel_fusion!"},
      {"recompute", "mode full_recompute_layer select_module exclude_op"},
      {"recompute_comm", "enable- select_module-"},
      {"swap", "enable! default_prefetch- layer_swap- op_swap-"},
      {"monitor.train_state", "local_norm local_loss device_norm device_loss"},
      {"monitor.health_checkpoint",
       "embedding_local_norm_threshold- global_norm_skip_threshold- global_norm_skip_time-"},
      {"monitor.tensorboard",
       "output_dir log_interval queue_size tensorboard_dir tensorboard_log_interval "
       "tensorboard_queue_size"},
      {"monitor.moe_monitor", "save_tokens_per_expert_interval target_layers"},
      {"context", "mode- max_device_memory- device_target"},
  };
  return keys;
}

char mark_of(Effect effect) {
  switch (effect) {
    case Effect::kHonoured: return ' ';
    case Effect::kNoEffect: return '-';
    case Effect::kFixed: return '=';
    case Effect::kReserved: return '~';
    case Effect::kRefused: return '!';
  }
  return '?';
}

TEST(ReferenceKeys, AllAreKnownAndDealtWithAsWrittenHere) {
  for (const auto& [section, text] : reference_keys()) {
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      char mark = ' ';
      if (std::string("-=~!").find(word.back()) != std::string::npos) {
        mark = word.back();
        word.pop_back();
      }
      const std::string first = canonical_key(section, word);
      const std::string path = section.empty() ? first : section + "." + first;
      const Field* field = find_field(path);
      ASSERT_NE(field, nullptr) << path << " is not known";
      EXPECT_EQ(mark_of(field->effect), mark) << path;
    }
  }
}

// Owned by what is still to be built: known at least, whatever becomes of them.
TEST(ReferenceKeys, KeysOfOtherPartsAreKnown) {
  for (const char* path : {"optimizer.type",
                           "optimizer.betas",
                           "optimizer.matched_adamw_rms",
                           "optimizer.momentum",
                           "optimizer.nesterov",
                           "optimizer.ns_steps",
                           "optimizer.ns_coefficients",
                           "optimizer.adamw_betas",
                           "optimizer.adamw_eps",
                           "optimizer.qk_clip_enabled",
                           "optimizer.qk_clip_threshold",
                           "optimizer.comm_strategy",
                           "optimizer.use_fused_adamw",
                           "optimizer.adamw_include",
                           "optimizer.swap",
                           "optimizer.phase0_batch_memory_gb",
                           "optimizer.ns_batch_memory_gb",
                           "optimizer.phase4_batch_memory_gb",
                           "inference",
                           "eval_dataset",
                           "lora_config",
                           "train_dataset.dataloader.sequence_length",
                           "train_dataset.dataloader.data_path",
                           "train_dataset.dataloader.create_seq_len_vector",
                           "train_dataset.dataloader.handler",
                           "train_dataset.dataloader.packing",
                           "train_dataset.dataloader.load_func",
                           "train_dataset.dataloader.data_files",
                           "train_dataset.dataloader.dataset_files",
                           "profiler.enable_profiling"}) {
    EXPECT_TRUE(find_field(path) != nullptr || is_section(path)) << path;
  }
}

// A key that is part of something that is not built says of what; a value that asks for nothing
// passes.
TEST(ReferenceKeys, WhatIsNotBuiltIsNamed) {
  using testing_config::check_base;
  EXPECT_THAT(
      check_base(1, {"model.o_groups=8"}),
      testing_config::HasError("model.o_groups", "part of DeepSeek-V4, which is not built"));
  EXPECT_THAT(
      check_base(1, {"model.num_hash_layers=0", "model.enable_hyper_connections=false",
                     "model.experimental_attention_variant=null", "model.compress_ratios=[]"}),
      testing_config::HasNoErrors());
  const auto v4 = check_base(1, {"model.model_type=deepseek_v4"});
  EXPECT_THAT(v4, testing_config::HasError("model.model_type", "DeepSeek-V4 is not built"));
  EXPECT_THAT(check_base(1, {"model.architectures=DeepseekV4ForCausalLM"}),
              testing_config::HasError("model.architectures", "DeepSeek-V4 is not built"));
}

}  // namespace
}  // namespace tessera
