#include "tessera/config/fields/field.h"

namespace tessera {

namespace {
constexpr double kMaxSize = 1 << 30;
}

std::vector<Field> moe_fields() {
  return {
      TESSERA_FIELD(model.multi_latent_attention, kHonoured,
                    "Whether attention is latent, which the family decides; null: not said."),
      TESSERA_UNUSED_FIELD("model.mla_qkv_concat", bool,
                           "Latent attention: one product makes both latent vectors."),
      TESSERA_FIELD(model.q_lora_rank, kHonoured, "Latent attention; null: a full-rank query.")
          .between(1, kMaxSize),
      TESSERA_FIELD(model.kv_lora_rank, kHonoured, "Latent attention.").between(1, kMaxSize),
      TESSERA_FIELD(model.qk_nope_head_dim, kHonoured, "Latent attention.").between(0, kMaxSize),
      TESSERA_FIELD(model.qk_rope_head_dim, kHonoured, "Latent attention.").between(0, kMaxSize),
      TESSERA_FIELD(model.v_head_dim, kHonoured, "Latent attention.").between(1, kMaxSize),
      TESSERA_UNUSED_FIELD("model.qk_head_dim", int64_t,
                           "qk_nope_head_dim + qk_rope_head_dim anyway."),
      TESSERA_FIELD(model.rope_interleave, kHonoured,
                    "Latent attention: rotary pairs are adjacent."),
      TESSERA_FIELD(model.rotary_scaling_factor, kHonoured,
                    "Factor of yarn; latent attention: also of the softmax scale.")
          .above(0),
      TESSERA_FIELD(model.mscale, kHonoured, "Another name; see rope_scaling.").at_least(0),
      TESSERA_FIELD(model.mscale_all_dim, kHonoured, "Another name; see rope_scaling.").at_least(0),
      TESSERA_FIELD(model.beta_fast, kHonoured, "Another name; see rope_scaling.").above(0),
      TESSERA_FIELD(model.beta_slow, kHonoured, "Another name; see rope_scaling.").above(0),

      TESSERA_FIELD(model.n_routed_experts, kHonoured, "Routed experts of a layer.")
          .between(0, 1 << 16),
      TESSERA_FIELD(model.num_experts_per_tok, kHonoured, "Experts a token goes to.")
          .between(1, 1 << 16),
      TESSERA_FIELD(model.n_shared_experts, kHonoured, "Experts every token goes to.")
          .between(0, 1 << 16),
      TESSERA_FIELD(model.moe_intermediate_size, kHonoured, "Width of an expert.")
          .between(0, kMaxSize),
      TESSERA_FIELD(model.moe_shared_expert_intermediate_size, kHonoured,
                    "Width of the shared experts together; left out: moe_intermediate_size x "
                    "n_shared_experts.")
          .between(0, kMaxSize),
      TESSERA_FIELD(model.n_group, kHonoured, "Groups of experts; 0: none.").between(0, 1 << 16),
      TESSERA_FIELD(model.topk_group, kHonoured, "Groups a token may choose from; 0: none.")
          .between(0, 1 << 16),
      TESSERA_FIELD(model.routed_scaling_factor, kHonoured, "Factor on the routing weights."),
      TESSERA_FIELD(model.norm_topk_prob, kHonoured, "Routing weights are made to sum to one."),
      TESSERA_FIELD(model.first_k_dense_replace, kHonoured, "First layers that are dense.")
          .at_least(0),
      TESSERA_FIELD(model.moe_layer_freq, kHonoured,
                    "Layer i holds experts iff i % freq == 0; or a 0 or 1 for each layer."),
      TESSERA_FIELD(model.decoder_sparse_step, kHonoured,
                    "Layer i holds experts iff (i + 1) % step == 0.")
          .at_least(1),
      TESSERA_FIELD(model.mlp_only_layers, kHonoured, "Layers that are dense."),
      TESSERA_FIELD(model.moe_router_score_function, kHonoured, "How logits become scores.")
          .one_of("softmax, sigmoid, sqrtsoftplus"),
      TESSERA_FIELD(model.moe_router_enable_expert_bias, kHonoured,
                    "A bias steers the choice towards equal load."),
      TESSERA_FIELD(model.moe_router_bias_update_rate, kHonoured, "Step of that bias.").at_least(0),
      TESSERA_FIELD(
          model.moe_router_load_balancing_type, kHonoured,
          "Auxiliary loss over a micro-batch, a sequence or the global batch; "
          "sub_seq_aux_loss means seq_aux_loss. gbs_aux_loss, over all micro-batches of an "
          "update, is not built.")
          .one_of("aux_loss, seq_aux_loss, global_aux_loss, sub_seq_aux_loss, gbs_aux_loss"),
      TESSERA_FIELD(model.moe_aux_loss_coeff, kHonoured, "Coefficient of it; 0: none.").at_least(0),
      TESSERA_FIELD(
          model.moe_z_loss_coeff, kHonoured,
          "Coefficient of the mean over positions of logsumexp(router logits)^2; 0: none.")
          .at_least(0),
      TESSERA_FIELD(model.moe_router_force_expert_balance, kHonoured,
                    "For measurements: experts in turn."),
      TESSERA_FIELD(model.moe_apply_probs_on_input, kHonoured,
                    "Weights before the expert; only with num_experts_per_tok 1."),
      TESSERA_FIELD(model.moe_router_pre_softmax, kNoEffect, "Scores are of all experts anyway."),
      TESSERA_FIELD(model.use_shared_expert_gating, kHonoured, "A gate on the shared expert."),
      TESSERA_FIELD(model.moe_n_hash_layers, kRefused, "Layers routed by token id."),
      TESSERA_FIELD(model.actual_vocab_size, kNoEffect, "See moe_n_hash_layers."),
      TESSERA_FIELD(model.moe_router_dtype, kHonoured, "The router."),
      TESSERA_FIELD(model.num_nextn_predict_layers, kHonoured,
                    "Layers that predict one token further.")
          .between(0, 1),
      TESSERA_FIELD(model.mtp_loss_factor, kHonoured,
                    "Weight of their loss; needed with num_nextn_predict_layers.")
          .at_least(0),

      TESSERA_FIELD(model.apply_residual_connection_post_layernorm, kRefused,
                    "The residual is taken before the norm."),
      TESSERA_UNUSED_FIELD("model.moe_permute_fusion", bool, "Kernels of the NPU."),
      TESSERA_UNUSED_FIELD("model.moe_grouped_gemm", bool, "Experts are always grouped."),
      TESSERA_UNUSED_FIELD("model.moe_router_fusion", bool, "Kernels of the NPU."),
      TESSERA_UNUSED_FIELD("model.moe_expert_capacity_factor", AnyValue, "No token is dropped."),
      TESSERA_UNUSED_FIELD("model.moe_token_drop_policy", AnyValue, "No token is dropped."),
      TESSERA_UNUSED_FIELD("model.moe_pad_expert_input_to_capacity", AnyValue,
                           "No token is dropped."),
      TESSERA_UNUSED_FIELD("model.topk_method", AnyValue, "See n_group and the expert bias."),
      TESSERA_UNUSED_FIELD("model.use_pad_tokens", bool, "Empty experts need no padding."),
      TESSERA_UNUSED_FIELD("model.moe_shared_expert_overlap", bool, "Not read."),
      TESSERA_UNUSED_FIELD("model.print_expert_load", bool, "metrics.jsonl holds the counts."),
      TESSERA_UNUSED_FIELD("model.enable_expert_relocation", bool, "Experts stay."),
      TESSERA_UNUSED_FIELD("model.expert_relocation_initial_iteration", int64_t, "As above."),
      TESSERA_UNUSED_FIELD("model.expert_relocation_freq", int64_t, "As above."),
      TESSERA_UNUSED_FIELD("model.router_aux_loss_coef", double, "See moe_aux_loss_coeff."),
      TESSERA_UNUSED_FIELD("model.aux_loss_alpha", double, "See moe_aux_loss_coeff."),
      TESSERA_UNUSED_FIELD("model.seq_aux", bool, "See moe_router_load_balancing_type."),
      TESSERA_UNUSED_FIELD("model.output_router_logits", bool, "Not read."),
      TESSERA_UNUSED_FIELD("model.ep_size", int64_t, "See expert_parallel."),
  };
}

}  // namespace tessera
