#include "tessera/config/fields/field.h"

namespace tessera {

namespace {
constexpr double kMaxSize = 1 << 30;
}

std::vector<Field> model_fields() {
  return {
      TESSERA_FIELD(model.model_type, kHonoured, "The family; this or architectures is needed."),
      TESSERA_FIELD_AS(model.architectures, StringOrList, kHonoured, "Class name of the family."),
      TESSERA_FIELD(model.vocab_size, kHonoured, "Rows of the embedding.").between(1, kMaxSize),
      TESSERA_FIELD(model.seq_length, kHonoured,
                    "Tokens of a sample; left out: the data's seq_length.")
          .between(1, kMaxSize),
      TESSERA_FIELD(model.hidden_size, kHonoured, "Width.").between(1, kMaxSize),
      TESSERA_FIELD(model.intermediate_size, kHonoured, "Width of the feed-forward part.")
          .between(1, kMaxSize),
      TESSERA_FIELD(model.num_hidden_layers, kHonoured, "Decoder layers.").between(1, 1 << 16),
      TESSERA_FIELD(model.num_attention_heads, kHonoured, "Query heads.").between(1, 1 << 20),
      TESSERA_FIELD(model.num_key_value_heads, kHonoured,
                    "Key and value heads; left out: num_attention_heads.")
          .between(1, 1 << 20),
      TESSERA_FIELD(model.head_dim, kHonoured, "Width of a head.").between(1, 1 << 20),
      TESSERA_FIELD(model.hidden_act, kHonoured,
                    "Activation of the gate: SiLU by four names, or GELU's tanh approximation.")
          .one_of("silu, swish, swiglu, fusedswiglu, gelu_pytorch_tanh"),
      TESSERA_FIELD(model.rms_norm_eps, kHonoured, "Added to the mean square.").at_least(0),
      TESSERA_FIELD(model.rope_theta, kHonoured, "Base of the rotary frequencies.").above(0),
      TESSERA_FIELD(model.rope_scaling.rope_type, kHonoured, "How frequencies are changed.")
          .one_of("default, linear, dynamic, llama3, yarn, longrope"),
      TESSERA_FIELD(model.rope_scaling.factor, kHonoured, "How many times longer.").at_least(1),
      TESSERA_FIELD(model.rope_scaling.low_freq_factor, kHonoured, "llama3.").above(0),
      TESSERA_FIELD(model.rope_scaling.high_freq_factor, kHonoured, "llama3.").above(0),
      TESSERA_FIELD(model.rope_scaling.original_max_position_embeddings, kHonoured,
                    "llama3, yarn, longrope: the length before; yarn left out: "
                    "max_position_embeddings.")
          .between(1, kMaxSize),
      TESSERA_FIELD(model.rope_scaling.mscale, kHonoured, "yarn.").at_least(0),
      TESSERA_FIELD(model.rope_scaling.mscale_all_dim, kHonoured, "yarn.").at_least(0),
      TESSERA_FIELD(model.rope_scaling.beta_fast, kHonoured, "yarn.").above(0),
      TESSERA_FIELD(model.rope_scaling.beta_slow, kHonoured, "yarn.").above(0),
      TESSERA_FIELD(model.rope_scaling.attention_factor, kHonoured,
                    "yarn: factor on cos and sin, instead of the one from mscale.")
          .above(0),
      TESSERA_FIELD(model.rope_scaling.truncate, kHonoured, "yarn: whole dimensions as bounds."),
      TESSERA_FIELD(model.rope_scaling.short_factor, kHonoured,
                    "longrope: divides the frequency of each pair in sequences up to the original "
                    "length."),
      TESSERA_FIELD(model.rope_scaling.long_factor, kHonoured, "longrope: in longer ones."),
      TESSERA_FIELD(model.original_max_position_embeddings, kHonoured,
                    "longrope: where rope_scaling does not have it.")
          .between(1, kMaxSize),
      TESSERA_FIELD(model.rope_local_base_freq, kHonoured,
                    "Base of the rotary frequencies of layers with a window; left out: rope_theta.")
          .above(0),
      TESSERA_FIELD(model.partial_rotary_factor, kHonoured,
                    "How much of each head the rotary embedding turns, from its start.")
          .between(0, 1),
      TESSERA_FIELD(model.max_position_embeddings, kHonoured, "Longest position of the model.")
          .between(1, kMaxSize),
      TESSERA_FIELD(model.position_embedding_type, kHonoured, "yarn: see rope_scaling.")
          .one_of("rope, yarn"),
      TESSERA_FIELD(model.attention_bias, kHonoured,
                    "Biases of q, k, v and o; latent attention: of q_a, kv_a and o."),
      TESSERA_FIELD(model.mlp_bias, kHonoured, "Biases of gate, up and down."),
      TESSERA_FIELD(model.add_bias_linear, kRefused, "See attention_bias and mlp_bias."),
      TESSERA_FIELD(model.gated_linear_unit, kRefused, "Every family is gated."),
      TESSERA_FIELD(model.normalization, kHonoured, "Only RMSNorm.").one_of("RMSNorm"),
      TESSERA_FIELD(model.tie_word_embeddings, kHonoured, "The head is the embedding."),
      TESSERA_FIELD(model.qk_layernorm, kHonoured,
                    "Norms of each head of q and k; latent attention: of what q and k are made "
                    "from."),
      TESSERA_FIELD(model.attention_dropout, kRefused, "The attention kernels have none."),
      TESSERA_FIELD(model.hidden_dropout, kHonoured,
                    "Dropout of both branches of a layer; below 1.")
          .between(0, 1),
      TESSERA_FIELD(model.initializer_range, kHonoured, "Standard deviation of initial weights.")
          .at_least(0),
      TESSERA_FIELD(model.param_init_std_rules, kHonoured,
                    "A list of {target, init_method_std}: weights whose name, of Hugging Face or "
                    "MindFormers, begins with a match of the regular expression `target` start "
                    "with this deviation; the last rule that matches decides."),
      TESSERA_FIELD(model.pad_token_id, kNoEffect, "Padding is the data's (pad)."),
      TESSERA_FIELD(model.ignore_token_id, kHonoured, "Labels of this id carry no loss."),
      TESSERA_FIELD(model.calculate_per_token_loss, kNoEffect,
                    "The loss is always the mean over the tokens of the global batch."),
      TESSERA_FIELD(
          model.chunk_loss_num, kHonoured,
          "Into how many chunks of tokens the logits are cut, one in memory at a time; 0: "
          "as many as keep them small.")
          .at_least(0),
      TESSERA_FIELD(model.activation_func_clamp_value, kHonoured,
                    "The gate is clamped to at most this, the other factor to its both sides.")
          .above(0),
      TESSERA_FIELD(model.query_pre_attn_scalar, kHonoured,
                    "Scores are divided by its square root; left out: by that of head_dim.")
          .above(0),
      TESSERA_FIELD(model.attn_logit_softcapping, kHonoured,
                    "A score s becomes c tanh(s / c) with this c.")
          .above(0),
      TESSERA_FIELD(model.final_logit_softcapping, kHonoured, "The same of the logits.").above(0),

      TESSERA_FIELD(model.params_dtype, kHonoured, "Storage of the weights."),
      TESSERA_FIELD(model.embedding_params_dtype, kHonoured, "Storage of the embedding."),
      TESSERA_FIELD(model.compute_dtype, kHonoured, "Matrix products and attention."),
      TESSERA_FIELD(model.layernorm_compute_dtype, kHonoured, "Norms."),
      TESSERA_FIELD(model.rotary_dtype, kHonoured, "Rotary embedding."),

      TESSERA_FIELD(model.use_flash_attention, kFixed, "Attention is always a flash kernel."),
      TESSERA_FIELD(model.use_attn_mask_compression, kHonoured,
                    "No dense causal mask; there is none anyway. Context parallelism asks for it."),
      TESSERA_FIELD(model.use_eod_attn_mask_compression, kHonoured,
                    "Follows create_compressed_eod_mask of the data."),

      TESSERA_FIELD(model.sliding_window, kHonoured,
                    "A token of a layer with a window sees itself and this many less one before "
                    "it; null: no windows.")
          .between(1, kMaxSize),
      TESSERA_FIELD(model.layer_types, kHonoured,
                    "One a layer; left out: as the family has its windows.")
          .one_of("full_attention, sliding_attention"),
      TESSERA_FIELD(model.use_sliding_window, kHonoured,
                    "Families whose windows have to be asked for (Qwen)."),
      TESSERA_FIELD(model.max_window_layers, kHonoured,
                    "Of use_sliding_window: these first layers have no window.")
          .at_least(0),
      TESSERA_UNUSED_FIELD("model.apply_rope_fusion", bool, "Kernels of the NPU."),
      TESSERA_UNUSED_FIELD("model.sequence_parallel", bool, "Follows tensor_parallel."),
      TESSERA_UNUSED_FIELD("model.scaling_factor", double, "See rotary_scaling_factor."),
      TESSERA_UNUSED_FIELD("model.softmax_compute_dtype", std::string, "Inside the kernel."),
      TESSERA_UNUSED_FIELD("model.bias_swiglu_fusion", bool, "Kernels of the NPU."),
      TESSERA_UNUSED_FIELD("model.fp32_residual_connection", bool, "Not read."),
      TESSERA_UNUSED_FIELD("model.fused_norm", bool, "Norms are always fused."),
      TESSERA_UNUSED_FIELD("model.offset", AnyValue,
                           "See parallelism.pipeline_parallel_layers_per_stage."),
      TESSERA_UNUSED_FIELD("model.bos_token_id", AnyValue, "Of generation."),
      TESSERA_UNUSED_FIELD("model.eos_token_id", AnyValue, "Of generation."),
      TESSERA_UNUSED_FIELD("model.use_cache", bool, "Of generation."),
      TESSERA_UNUSED_FIELD("model.dtype", AnyValue, "See params_dtype."),
      TESSERA_UNUSED_FIELD("model.torch_dtype", AnyValue, "See params_dtype."),
      TESSERA_UNUSED_FIELD("model.transformers_version", AnyValue, "Not read."),
      TESSERA_UNUSED_FIELD("model.pretraining_tp", int64_t, "Not read."),
  };
}

}  // namespace tessera
