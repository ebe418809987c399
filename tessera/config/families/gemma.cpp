#include "tessera/config/families/families.h"

namespace tessera::families {

namespace {

// What Gemma 2 and 3 share: four norms of 1 + w, GELU, a scaled embedding that is the head too.
Family gemma() {
  Family f;
  f.design.norm_scale = NormScale::kOnePlusWeight;
  f.design.scaled_embedding = true;
  f.design.biases.mlp = Presence::kNever;
  f.design.has_windows = true;
  f.defaults.hidden_size = 2304;
  f.defaults.intermediate_size = 9216;
  f.defaults.num_hidden_layers = 26;
  f.defaults.num_attention_heads = 8;
  f.defaults.num_key_value_heads = 4;
  f.defaults.head_dim = 256;
  f.defaults.hidden_act = "gelu_pytorch_tanh";
  f.defaults.query_pre_attn_scalar = 256;
  f.defaults.sliding_window = 4096;
  f.defaults.tie_word_embeddings = true;
  f.fixed = {
      {"model.mlp_bias", "false", "llama can have it"},
      {"model.n_routed_experts", "0", "qwen3_moe has experts"},
      {"model.num_nextn_predict_layers", "0", "deepseek_v3 can have them"},
  };
  f.hf_keys = {
      "attention_bias", "head_dim",    "hidden_activation",      "query_pre_attn_scalar",
      "sliding_window", "layer_types", "attn_logit_softcapping", "final_logit_softcapping"};
  return f;
}

}  // namespace

Family gemma2() {
  Family f = gemma();
  f.model_type = "gemma2";
  f.architecture = "Gemma2ForCausalLM";
  f.design.norms = {{NormPlace::kBeforeAttention, "input_layernorm"},
                    {NormPlace::kAfterAttention, "post_attention_layernorm"},
                    {NormPlace::kBeforeMlp, "pre_feedforward_layernorm"},
                    {NormPlace::kAfterMlp, "post_feedforward_layernorm"}};
  f.design.full_attention_every = 2;
  f.defaults.vocab_size = 256000;
  f.defaults.attn_logit_softcapping = 50.0;
  f.defaults.final_logit_softcapping = 30.0;
  f.fixed.push_back({"model.qk_layernorm", "false", "gemma3_text has these norms"});
  f.hf_implied = {{"model.qk_layernorm", "false"}};
  return f;
}

// The text part of Gemma 3: layers with a window have a rope base of their own.
Family gemma3_text() {
  Family f = gemma();
  f.model_type = "gemma3_text";
  f.architecture = "Gemma3ForCausalLM";
  f.design.norms = {{NormPlace::kBeforeAttention, "input_layernorm"},
                    {NormPlace::kQuery, "self_attn.q_norm"},
                    {NormPlace::kKey, "self_attn.k_norm"},
                    {NormPlace::kAfterAttention, "post_attention_layernorm"},
                    {NormPlace::kBeforeMlp, "pre_feedforward_layernorm"},
                    {NormPlace::kAfterMlp, "post_feedforward_layernorm"}};
  f.design.full_attention_every = 6;
  f.defaults.vocab_size = 262208;
  f.defaults.rope_theta = 1e6;
  f.defaults.rope_local_base_freq = 10000.0;
  f.defaults.qk_layernorm = true;
  f.fixed.push_back({"model.qk_layernorm", "true", "gemma3_text always norms q and k",
                     /*only_warn=*/true});
  f.hf_implied = {{"model.qk_layernorm", "true"}};
  f.hf_keys.push_back("rope_local_base_freq");
  return f;
}

}  // namespace tessera::families
