#include "tessera/layout/model_spec.h"

#include "tessera/base/error.h"

namespace tessera {

namespace {

using Shape = std::vector<int64_t>;

class SpecBuilder {
 public:
  explicit SpecBuilder(const ModelConfig& model) : m_(model) {}

  std::vector<ParamSpec> build() {
    add("model.embed_tokens.weight", {m_.vocab_size, m_.hidden_size}, ParamRole::kEmbedding);
    for (int64_t layer = 0; layer < m_.num_hidden_layers; ++layer) {
      begin_layer(layer);
      add_decoder_layer();
    }
    layer_ = -1;
    prefix_.clear();
    add("model.norm.weight", {m_.hidden_size}, ParamRole::kNorm);
    add("lm_head.weight", {m_.vocab_size, m_.hidden_size}, ParamRole::kHead);
    if (m_.tie_word_embeddings) spec_.back().tied_to = "model.embed_tokens.weight";
    for (int64_t depth = 0; depth < m_.num_nextn_predict_layers; ++depth) {
      begin_layer(m_.num_hidden_layers + depth);
      add_mtp_layer();
    }
    return std::move(spec_);
  }

 private:
  void begin_layer(int64_t layer) {
    layer_ = layer;
    prefix_ = "model.layers." + std::to_string(layer) + ".";
  }

  void add(const std::string& name, Shape shape, ParamRole role) {
    ParamSpec param;
    param.name = prefix_ + name;
    param.shape = std::move(shape);
    param.role = role;
    param.layer = layer_;
    param.expert = expert_;
    spec_.push_back(std::move(param));
  }

  // A matrix [out, in], then its bias [out] when there is one.
  void add_linear(const std::string& name, int64_t out, int64_t in, ParamRole role) {
    add(name + ".weight", {out, in}, role);
  }
  void add_linear(const std::string& name, int64_t out, int64_t in, ParamRole role, bool has_bias,
                  ParamRole bias_role) {
    add_linear(name, out, in, role);
    if (has_bias) add(name + ".bias", {out}, bias_role);
  }

  void add_decoder_layer() {
    add("input_layernorm.weight", {m_.hidden_size}, ParamRole::kNorm);
    if (m_.is_mla()) {
      add_mla();
    } else {
      add_attention();
    }
    add("post_attention_layernorm.weight", {m_.hidden_size}, ParamRole::kNorm);
    if (m_.is_moe_layer(layer_)) {
      add_experts();
    } else {
      add_mlp();
    }
  }

  void add_attention() {
    const int64_t q = m_.num_attention_heads * m_.head_dim;
    const int64_t kv = m_.num_key_value_heads * m_.head_dim;
    const bool bias = m_.attention_bias;
    add_linear("self_attn.q_proj", q, m_.hidden_size, ParamRole::kAttnQ, bias,
               ParamRole::kAttnQBias);
    add_linear("self_attn.k_proj", kv, m_.hidden_size, ParamRole::kAttnK, bias,
               ParamRole::kAttnKBias);
    add_linear("self_attn.v_proj", kv, m_.hidden_size, ParamRole::kAttnV, bias,
               ParamRole::kAttnVBias);
    add_linear("self_attn.o_proj", m_.hidden_size, q, ParamRole::kAttnO, bias,
               ParamRole::kAttnOBias);
    if (m_.qk_layernorm) {
      add("self_attn.q_norm.weight", {m_.head_dim}, ParamRole::kQNorm);
      add("self_attn.k_norm.weight", {m_.head_dim}, ParamRole::kKNorm);
    }
  }

  void add_mla() {
    const int64_t q = m_.num_attention_heads * (m_.qk_nope_head_dim + m_.qk_rope_head_dim);
    const bool bias = m_.attention_bias;
    if (m_.q_lora_rank) {
      add_linear("self_attn.q_a_proj", *m_.q_lora_rank, m_.hidden_size, ParamRole::kMlaQA, bias,
                 ParamRole::kMlaQABias);
      if (m_.qk_layernorm) {
        add("self_attn.q_a_layernorm.weight", {*m_.q_lora_rank}, ParamRole::kQNorm);
      }
      add_linear("self_attn.q_b_proj", q, *m_.q_lora_rank, ParamRole::kMlaQB);
    } else {
      add_linear("self_attn.q_proj", q, m_.hidden_size, ParamRole::kMlaQB);
    }
    add_linear("self_attn.kv_a_proj_with_mqa", m_.kv_lora_rank + m_.qk_rope_head_dim,
               m_.hidden_size, ParamRole::kMlaKvA, bias, ParamRole::kMlaKvABias);
    if (m_.qk_layernorm) {
      add("self_attn.kv_a_layernorm.weight", {m_.kv_lora_rank}, ParamRole::kKNorm);
    }
    add_linear("self_attn.kv_b_proj",
               m_.num_attention_heads * (m_.qk_nope_head_dim + m_.v_head_dim), m_.kv_lora_rank,
               ParamRole::kMlaKvB);
    add_linear("self_attn.o_proj", m_.hidden_size, m_.num_attention_heads * m_.v_head_dim,
               ParamRole::kAttnO, bias, ParamRole::kAttnOBias);
  }

  void add_mlp() {
    const int64_t width = m_.intermediate_size;
    const bool bias = m_.mlp_bias;
    add_linear("mlp.gate_proj", width, m_.hidden_size, ParamRole::kMlpGate, bias,
               ParamRole::kMlpGateBias);
    add_linear("mlp.up_proj", width, m_.hidden_size, ParamRole::kMlpUp, bias,
               ParamRole::kMlpUpBias);
    add_linear("mlp.down_proj", m_.hidden_size, width, ParamRole::kMlpDown, bias,
               ParamRole::kMlpDownBias);
  }

  void add_experts() {
    add_linear("mlp.gate", m_.n_routed_experts, m_.hidden_size, ParamRole::kRouter);
    if (m_.moe_router_enable_expert_bias) {
      add("mlp.gate.e_score_correction_bias", {m_.n_routed_experts}, ParamRole::kRouterBias);
      spec_.back().trainable = false;
    }
    const int64_t width = m_.moe_intermediate_size;
    for (expert_ = 0; expert_ < m_.n_routed_experts; ++expert_) {
      const std::string name = "mlp.experts." + std::to_string(expert_);
      add_linear(name + ".gate_proj", width, m_.hidden_size, ParamRole::kExpertGate);
      add_linear(name + ".up_proj", width, m_.hidden_size, ParamRole::kExpertUp);
      add_linear(name + ".down_proj", m_.hidden_size, width, ParamRole::kExpertDown);
    }
    expert_ = -1;
    if (m_.n_shared_experts > 0) {
      const int64_t shared = m_.moe_shared_expert_intermediate_size;
      add_linear("mlp.shared_experts.gate_proj", shared, m_.hidden_size, ParamRole::kSharedGate);
      add_linear("mlp.shared_experts.up_proj", shared, m_.hidden_size, ParamRole::kSharedUp);
      add_linear("mlp.shared_experts.down_proj", m_.hidden_size, shared, ParamRole::kSharedDown);
      if (m_.use_shared_expert_gating) {
        add_linear("mlp.shared_expert_gate", 1, m_.hidden_size, ParamRole::kSharedExpertGate);
      }
    }
  }

  // Names as in DeepSeek-V3's published files; embedding and head are the model's own.
  void add_mtp_layer() {
    add("embed_tokens.weight", {m_.vocab_size, m_.hidden_size}, ParamRole::kEmbedding);
    spec_.back().tied_to = "model.embed_tokens.weight";
    add("enorm.weight", {m_.hidden_size}, ParamRole::kMtpEmbeddingNorm);
    add("hnorm.weight", {m_.hidden_size}, ParamRole::kMtpHiddenNorm);
    add("eh_proj.weight", {m_.hidden_size, 2 * m_.hidden_size}, ParamRole::kMtpProjection);
    add_decoder_layer();
    add("shared_head.norm.weight", {m_.hidden_size}, ParamRole::kNorm);
    add("shared_head.head.weight", {m_.vocab_size, m_.hidden_size}, ParamRole::kHead);
    spec_.back().tied_to = m_.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  }

  const ModelConfig& m_;
  std::vector<ParamSpec> spec_;
  std::string prefix_;
  int64_t layer_ = -1;
  int64_t expert_ = -1;
};

}  // namespace

int64_t ParamSpec::numel() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

std::vector<ParamSpec> model_spec(const ModelConfig& model) {
  const std::string& type = model.model_type;
  if (type != "llama" && type != "qwen3" && type != "qwen3_moe" && type != "deepseek_v3") {
    throw ConfigError("model.model_type = \"" + type +
                      "\": must be one of llama, qwen3, qwen3_moe, deepseek_v3");
  }
  return SpecBuilder(model).build();
}

int64_t count_parameters(const std::vector<ParamSpec>& spec) {
  int64_t count = 0;
  for (const ParamSpec& param : spec) {
    if (param.trainable && param.tied_to.empty()) count += param.numel();
  }
  return count;
}

}  // namespace tessera
