#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace tessera {

/// Keys of latent attention, without effect in families that have another one.
inline constexpr std::array<std::string_view, 7> kLatentKeys = {
    "model.multi_latent_attention", "model.q_lora_rank",      "model.kv_lora_rank",
    "model.qk_nope_head_dim",       "model.qk_rope_head_dim", "model.v_head_dim",
    "model.rope_interleave"};

/// Keys of checkpoints that speak of low-rank adapters.
inline constexpr std::array<std::string_view, 2> kAdapterKeys = {"checkpoint.save_trainable_only",
                                                                 "checkpoint.base_load_path"};

/// Other names of rotary scaling, for latent attention and for yarn.
inline constexpr std::array<std::string_view, 5> kRotaryKeys = {
    "model.rotary_scaling_factor", "model.mscale", "model.mscale_all_dim", "model.beta_fast",
    "model.beta_slow"};

/// What a published model says of its experts, beside their number.
inline constexpr std::array<std::string_view, 12> kPublishedExpertKeys = {
    "model.num_experts_per_tok",
    "model.n_shared_experts",
    "model.moe_intermediate_size",
    "model.n_group",
    "model.topk_group",
    "model.routed_scaling_factor",
    "model.norm_topk_prob",
    "model.first_k_dense_replace",
    "model.moe_layer_freq",
    "model.decoder_sparse_step",
    "model.mlp_only_layers",
    "model.moe_router_score_function"};

/// What only the YAML says of them.
inline constexpr std::array<std::string_view, 9> kOtherExpertKeys = {
    "model.moe_z_loss_coeff",
    "model.moe_shared_expert_intermediate_size",
    "model.moe_router_enable_expert_bias",
    "model.moe_router_bias_update_rate",
    "model.moe_router_load_balancing_type",
    "model.moe_aux_loss_coeff",
    "model.moe_router_dtype",
    "model.moe_router_force_expert_balance",
    "model.moe_apply_probs_on_input"};

/// Keys of experts, without effect in dense families.
inline constexpr auto kExpertKeys = [] {
  std::array<std::string_view, kPublishedExpertKeys.size() + kOtherExpertKeys.size()> all;
  std::ranges::copy(kOtherExpertKeys, std::ranges::copy(kPublishedExpertKeys, all.begin()).out);
  return all;
}();

/// Keys of records, without effect where token files are read.
inline constexpr std::array<std::string_view, 16> kRecordKeys = {
    "train_dataset.dataloader.tokenizer",
    "train_dataset.dataloader.load_func",
    "train_dataset.dataloader.path",
    "train_dataset.dataloader.data_files",
    "train_dataset.dataloader.data_dir",
    "train_dataset.dataloader.dataset_path",
    "train_dataset.dataloader.split",
    "train_dataset.dataloader.handler",
    "train_dataset.dataloader.chat_template",
    "train_dataset.dataloader.packing",
    "train_dataset.dataloader.too_long",
    "train_dataset.dataloader.seq_length",
    "train_dataset.dataloader.streaming",
    "train_dataset.dataloader.size",
    "train_dataset.dataloader.create_attention_mask",
    "train_dataset.dataloader.create_compressed_eod_mask"};

template <typename Keys>
constexpr bool holds(const Keys& keys, std::string_view path) {
  return std::ranges::find(keys, path) != std::ranges::end(keys);
}

}  // namespace tessera
