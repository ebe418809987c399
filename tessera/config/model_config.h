#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/config/layer_design.h"

namespace tessera {

struct Family;

/// The values of `model.layer_types`.
inline constexpr const char* kWindowedLayer = "sliding_attention";
inline constexpr const char* kFullLayer = "full_attention";

/// `model.rope_scaling`; a file without it has rope_type "default".
struct RopeScaling {
  std::string rope_type = "default";  // default, linear, dynamic, llama3, yarn, longrope
  double factor = 1.0;
  double low_freq_factor = 1.0;                             // llama3
  double high_freq_factor = 4.0;                            // llama3
  std::optional<int64_t> original_max_position_embeddings;  // llama3, yarn
  std::optional<double> mscale;                             // yarn: together with mscale_all_dim
  std::optional<double> mscale_all_dim;                     // yarn
  double beta_fast = 32.0;                                  // yarn
  double beta_slow = 1.0;                                   // yarn
  std::optional<double> attention_factor;  // yarn: replaces the factor on cos and sin
  bool truncate = true;                    // yarn: whole dimensions as the ends of the ramp
  std::vector<double> short_factor;        // longrope: divides the frequency of each pair in
  std::vector<double> long_factor;         // sequences up to the original length, and beyond it

  bool operator==(const RopeScaling&) const = default;
};

/// Low-rank adapters: y = W x + (lora_alpha / lora_rank) B A dropout(x), with W frozen. In a file
/// the section `lora_config`.
struct LoraConfig {
  std::string target_modules;  // a regular expression searched in module paths; empty: no adapters
  std::optional<std::string> exclude_layers;  // likewise; looked at first
  int64_t lora_rank = 8;
  int64_t lora_alpha = 16;
  double lora_dropout = 0.0;
  double lora_a_std = 0.01;  // initial standard deviations; 0: zeros
  double lora_b_std = 0.0;

  bool is_given() const { return !target_modules.empty(); }
  bool operator==(const LoraConfig&) const = default;
};

/// An item of `model.param_init_std_rules`: weights whose name begins with a match of `target`
/// start with this standard deviation.
struct InitStdRule {
  std::string target;  // a regular expression
  double init_method_std = 0.0;

  bool operator==(const InitStdRule&) const = default;
};

/// `model`: after load_config every field holds its final value, from the YAML, else from the
/// config.json at checkpoint.load_path, else from the family's defaults.
struct ModelConfig {
  std::string model_type;                // of `family`; empty: no model in this file
  std::shared_ptr<const Family> family;  // set by load_config: null when there is none of that name
  std::vector<std::string> architectures;

  // Sizes.
  int64_t vocab_size = 151936;
  int64_t seq_length = 4096;
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 22016;
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  int64_t num_key_value_heads = 32;
  int64_t head_dim = 128;  // unused by latent attention

  // The plain parts.
  std::string hidden_act = "silu";
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  std::optional<double> rope_local_base_freq;  // base of layers with a window; none: rope_theta
  double partial_rotary_factor = 1.0;          // how much of a head is rotated
  std::optional<int64_t>
      original_max_position_embeddings;  // longrope: of rope_scaling, if not there
  int64_t max_position_embeddings = 32768;
  std::string position_embedding_type = "rope";           // rope, yarn
  bool attention_bias = false;                            // see ProjectionBiases
  bool mlp_bias = false;                                  // likewise
  bool add_bias_linear = false;                           // only false is built
  bool gated_linear_unit = true;                          // only true is built
  bool apply_residual_connection_post_layernorm = false;  // only false is built
  std::string normalization = "RMSNorm";
  bool tie_word_embeddings = false;
  bool qk_layernorm = false;  // see NormPlace
  double attention_dropout = 0.0;
  double hidden_dropout = 0.0;
  double initializer_range = 0.02;
  std::vector<InitStdRule> param_init_std_rules;  // the last that matches decides
  int64_t pad_token_id = 0;
  int64_t ignore_token_id = -100;
  bool calculate_per_token_loss = false;
  int64_t chunk_loss_num = 0;
  std::optional<double> activation_func_clamp_value;
  std::optional<double> query_pre_attn_scalar;    // scores times its -1/2; none: the head size
  std::optional<double> attn_logit_softcapping;   // a score s becomes c tanh(s / c)
  std::optional<double> final_logit_softcapping;  // likewise the logits

  // Precision.
  DType params_dtype = DType::kFloat32;
  DType embedding_params_dtype = DType::kFloat32;
  DType compute_dtype = DType::kBFloat16;
  DType layernorm_compute_dtype = DType::kFloat32;
  DType rotary_dtype = DType::kFloat32;
  DType moe_router_dtype = DType::kFloat32;

  // Attention mask: causal, by the kernel. True also when create_compressed_eod_mask set it.
  bool use_flash_attention = true;
  bool use_attn_mask_compression = false;
  bool use_eod_attn_mask_compression = false;
  bool use_sliding_window = false;
  std::optional<int64_t> sliding_window;     // a token sees itself and this many less one before it
  std::vector<std::string> layer_types;      // sliding_attention or full_attention, one a layer
  std::optional<int64_t> max_window_layers;  // these first layers have no window

  // Multi-head latent attention.
  std::optional<bool> multi_latent_attention;  // follows from the family; none: not said
  std::optional<int64_t> q_lora_rank;          // none: one full-rank query projection
  int64_t kv_lora_rank = 512;
  int64_t qk_nope_head_dim = 128;
  int64_t qk_rope_head_dim = 64;
  int64_t v_head_dim = 128;
  bool rope_interleave = true;
  std::optional<double> rotary_scaling_factor;  // none: 1/sqrt(nope + rope) under plain rope
  std::optional<double> mscale;
  std::optional<double> mscale_all_dim;
  std::optional<double> beta_fast;
  std::optional<double> beta_slow;

  // Mixture of experts; 0 routed experts: dense.
  int64_t n_routed_experts = 0;  // also num_experts, num_local_experts
  int64_t num_experts_per_tok = 2;
  int64_t n_shared_experts = 0;
  int64_t moe_intermediate_size = 0;
  int64_t moe_shared_expert_intermediate_size = 0;  // resolved: moe_intermediate_size * shared
  std::optional<int64_t> n_group;
  std::optional<int64_t> topk_group;
  double routed_scaling_factor = 1.0;
  bool norm_topk_prob = true;
  int64_t first_k_dense_replace = 0;
  std::variant<int64_t, std::vector<int64_t>> moe_layer_freq = int64_t{1};
  int64_t decoder_sparse_step = 1;       // layer i holds experts iff (i + 1) % step == 0
  std::vector<int64_t> mlp_only_layers;  // these layers are dense
  std::string moe_router_score_function = "softmax";  // softmax, sigmoid, sqrtsoftplus
  bool moe_router_enable_expert_bias = false;
  double moe_router_bias_update_rate = 0.001;
  std::string moe_router_load_balancing_type = "seq_aux_loss";  // aux_loss, global_aux_loss
  double moe_aux_loss_coeff = 0.0;
  double moe_z_loss_coeff = 0.0;
  bool moe_router_force_expert_balance = false;
  bool moe_apply_probs_on_input = false;
  bool moe_router_pre_softmax = false;
  bool use_shared_expert_gating = false;
  int64_t moe_n_hash_layers = 0;
  std::optional<int64_t> actual_vocab_size;

  // Low-rank adapters. With them all that is no adapter is frozen.
  LoraConfig lora;
  std::optional<DType> frozen_dtype;  // in which what is frozen is kept; none: as what is trained

  // Multi-token prediction.
  int64_t num_nextn_predict_layers = 0;
  std::optional<double> mtp_loss_factor;

  bool is_moe() const { return n_routed_experts > 0; }

  /// What the family decides about the layers; without a family the design of most.
  const LayerDesign& design() const;
  bool has_latent_attention() const { return design().attention == AttentionKind::kLatent; }
  /// How many of the last tokens, itself among them, a token of decoder layer `layer` sees; 0: all
  /// of its document. A layer of multi-token prediction is as the last one.
  int64_t window_of(int64_t layer) const;
  /// The norm at a place of every layer; nullptr: there is none.
  const LayerNorm* norm_at(NormPlace place) const;

  // Sizes that the core of attention sees, whatever its kind.
  int64_t query_dim() const;      // of a head of q and of k
  int64_t value_dim() const;      // of a head of v
  int64_t rotary_dim() const;     // how much of a query head is rotated
  int64_t core_kv_heads() const;  // heads of k and v
  /// Whether the last stage of a pipeline uses the embedding of the first: tied to its head, or to
  /// predict several tokens.
  bool uses_embedding_last() const { return tie_word_embeddings || num_nextn_predict_layers > 0; }
  /// Whether decoder layer `layer` (from 0) holds experts; a layer of multi-token prediction is as
  /// the last one.
  bool is_moe_layer(int64_t layer) const;

  bool operator==(const ModelConfig&) const = default;
};

/// Whether the gate of a feed-forward part is GELU, else SiLU (model.hidden_act).
bool has_gelu_gate(const ModelConfig& model);

/// Factor on q k^T: 1/sqrt of query_pre_attn_scalar, or of the query's head size; under latent
/// attention times the square of yarn's magnitude, under yarn as transformers computes it, under
/// plain rope only when rotary_scaling_factor is given.
double attention_scale(const ModelConfig& model);

/// MindFormers' default of mscale and mscale_all_dim.
inline constexpr double kDefaultMscale = 0.707;

}  // namespace tessera
