#include "tessera/layout/model_spec.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "tessera/layout/adapters.h"
#include "tessera/layout/weight_names.h"

namespace tessera {

namespace {

using Shape = std::vector<int64_t>;

constexpr std::string_view kExpert = "{e}";

bool is_there(Presence presence, bool asked) {
  return presence == Presence::kAlways || (presence == Presence::kAsAsked && asked);
}

class SpecBuilder {
 public:
  explicit SpecBuilder(const ModelConfig& model) : m_(model), design_(model.design()) {}

  std::vector<ParamSpec> build() {
    add("model.embed_tokens.weight", {m_.vocab_size, m_.hidden_size}, ParamRole::kEmbedding);
    for (int64_t layer = 0; layer < m_.num_hidden_layers; ++layer) {
      begin_layer(layer);
      add_decoder_layer();
      stack_layer();
    }
    layer_ = -1;
    prefix_.clear();
    add("model.norm.weight", {m_.hidden_size}, ParamRole::kNorm);
    add("lm_head.weight", {m_.vocab_size, m_.hidden_size}, ParamRole::kHead);
    if (m_.tie_word_embeddings) spec_.back().tied_to = "model.embed_tokens.weight";
    for (int64_t depth = 0; depth < m_.num_nextn_predict_layers; ++depth) {
      begin_layer(m_.num_hidden_layers + depth);
      add_mtp_layer();
      stack_layer();
    }
    return std::move(spec_);
  }

 private:
  void begin_layer(int64_t layer) {
    layer_ = layer;
    first_of_layer_ = spec_.size();
    prefix_ = layer_prefix(layer);
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

  // Under the name that the family has for the role.
  void add(ParamRole role, Shape shape) {
    std::string name = weight_name(role, design_);
    if (const size_t at = name.find(kExpert); at != std::string::npos) {
      name.replace(at, kExpert.size(), std::to_string(expert_));
    }
    add(name, std::move(shape), role);
  }

  // A matrix [out, in], then its bias [out] when there is one.
  void add_linear(ParamRole role, int64_t out, int64_t in, bool has_bias, ParamRole bias_role) {
    add(role, {out, in});
    if (has_bias) add(bias_role, {out});
  }

  void add_norm(NormPlace place, int64_t width, ParamRole role) {
    if (const LayerNorm* norm = m_.norm_at(place)) add(norm->name + ".weight", {width}, role);
  }

  void add_decoder_layer() {
    add_norm(NormPlace::kBeforeAttention, m_.hidden_size, ParamRole::kNorm);
    switch (design_.attention) {
      case AttentionKind::kHeads: add_attention(); break;
      case AttentionKind::kLatent: add_latent_attention(); break;
    }
    add_norm(NormPlace::kAfterAttention, m_.hidden_size, ParamRole::kNorm);
    add_norm(NormPlace::kBeforeMlp, m_.hidden_size, ParamRole::kNorm);
    if (m_.is_moe_layer(layer_)) {
      add_experts();
    } else {
      add_mlp();
    }
    add_norm(NormPlace::kAfterMlp, m_.hidden_size, ParamRole::kNorm);
  }

  void add_attention() {
    using enum ParamRole;
    const int64_t q = m_.num_attention_heads * m_.head_dim;
    const int64_t kv = m_.num_key_value_heads * m_.head_dim;
    const bool bias = is_there(design_.biases.qkv, m_.attention_bias);
    add_linear(kAttnQ, q, m_.hidden_size, bias, kAttnQBias);
    add_linear(kAttnK, kv, m_.hidden_size, bias, kAttnKBias);
    add_linear(kAttnV, kv, m_.hidden_size, bias, kAttnVBias);
    add_output(q);
    const bool of_head = design_.qk_norm_span == QkNormSpan::kHead;
    add_norm(NormPlace::kQuery, of_head ? m_.head_dim : q, kQNorm);
    add_norm(NormPlace::kKey, of_head ? m_.head_dim : kv, kKNorm);
    if (design_.attention_sinks) add(kAttnSink, {m_.num_attention_heads});
  }

  void add_output(int64_t in) {
    add_linear(ParamRole::kAttnO, m_.hidden_size, in,
               is_there(design_.biases.output, m_.attention_bias), ParamRole::kAttnOBias);
  }

  void add_latent_attention() {
    using enum ParamRole;
    const int64_t q = m_.num_attention_heads * m_.query_dim();
    const bool bias = is_there(design_.biases.qkv, m_.attention_bias);
    if (m_.q_lora_rank) {
      add_linear(kMlaQA, *m_.q_lora_rank, m_.hidden_size, bias, kMlaQABias);
      add_norm(NormPlace::kQuery, *m_.q_lora_rank, kQNorm);
      add(kMlaQB, {q, *m_.q_lora_rank});
    } else {
      add(weight_name(kAttnQ, design_), {q, m_.hidden_size}, kMlaQB);
    }
    add_linear(kMlaKvA, m_.kv_lora_rank + m_.qk_rope_head_dim, m_.hidden_size, bias, kMlaKvABias);
    add_norm(NormPlace::kKey, m_.kv_lora_rank, kKNorm);
    add(kMlaKvB, {m_.num_attention_heads * (m_.qk_nope_head_dim + m_.v_head_dim), m_.kv_lora_rank});
    add_output(m_.num_attention_heads * m_.v_head_dim);
  }

  void add_mlp() {
    using enum ParamRole;
    const int64_t width = m_.intermediate_size;
    const bool bias = is_there(design_.biases.mlp, m_.mlp_bias);
    add_linear(kMlpGate, width, m_.hidden_size, bias, kMlpGateBias);
    add_linear(kMlpUp, width, m_.hidden_size, bias, kMlpUpBias);
    add_linear(kMlpDown, m_.hidden_size, width, bias, kMlpDownBias);
  }

  void add_experts() {
    using enum ParamRole;
    add(kRouter, {m_.n_routed_experts, m_.hidden_size});
    if (is_there(design_.biases.router, false)) add(kRouterOffset, {m_.n_routed_experts});
    if (m_.moe_router_enable_expert_bias) {
      add(kRouterBias, {m_.n_routed_experts});
      spec_.back().trainable = false;
    }
    const int64_t width = m_.moe_intermediate_size;
    const bool bias = is_there(design_.biases.experts, false);
    for (expert_ = 0; expert_ < m_.n_routed_experts; ++expert_) {
      add_linear(kExpertGate, width, m_.hidden_size, bias, kExpertGateBias);
      add_linear(kExpertUp, width, m_.hidden_size, bias, kExpertUpBias);
      add_linear(kExpertDown, m_.hidden_size, width, bias, kExpertDownBias);
    }
    expert_ = -1;
    if (m_.n_shared_experts > 0) {
      const int64_t shared = m_.moe_shared_expert_intermediate_size;
      add(kSharedGate, {shared, m_.hidden_size});
      add(kSharedUp, {shared, m_.hidden_size});
      add(kSharedDown, {m_.hidden_size, shared});
      if (m_.use_shared_expert_gating) add(kSharedExpertGate, {1, m_.hidden_size});
    }
  }

  // Says of the layer's parameters in which tensors of the files they lie.
  void stack_layer() {
    for (const PublishedStack& stack : design_.stacks) {
      std::map<int64_t, std::vector<ParamSpec*>> by_expert;
      for (size_t i = first_of_layer_; i < spec_.size(); ++i) {
        const bool is_part = std::ranges::find(stack.parts, spec_[i].role) != stack.parts.end();
        if (is_part) by_expert[spec_[i].expert].push_back(&spec_[i]);
      }
      for (const auto& [expert, parts] : by_expert) place_in_stack(stack, expert, parts);
    }
  }

  void place_in_stack(const PublishedStack& stack, int64_t expert,
                      const std::vector<ParamSpec*>& parts) {
    int64_t rows = 0;
    for (const ParamSpec* part : parts) rows += part->shape[0];
    StackPlace place;
    place.tensor = prefix_ + stack.name;
    place.shape = parts.front()->shape;
    place.shape[0] = rows;
    place.transposed = stack.transposed;
    if (stack.transposed) std::swap(place.shape[0], place.shape[1]);
    if (expert >= 0) {
      place.shape.insert(place.shape.begin(), m_.n_routed_experts);
      place.prefix = {expert};
    }
    int64_t first = 0;
    for (ParamSpec* part : parts) {
      place.first_row = first;
      place.row_step = stack.alternating ? static_cast<int64_t>(parts.size()) : 1;
      first += stack.alternating ? 1 : part->shape[0];
      part->stack = place;
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
  const LayerDesign& design_;
  std::vector<ParamSpec> spec_;
  std::string prefix_;
  size_t first_of_layer_ = 0;  // in spec_
  int64_t layer_ = -1;
  int64_t expert_ = -1;
};

}  // namespace

int64_t ParamSpec::numel() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

std::string layer_prefix(int64_t layer) {
  return layer < 0 ? "" : "model.layers." + std::to_string(layer) + ".";
}

std::vector<ParamSpec> model_spec(const ModelConfig& model) {
  std::vector<ParamSpec> plain = SpecBuilder(model).build();
  return model.lora.is_given() ? with_adapters(std::move(plain), model) : plain;
}

std::vector<ParamSpec> select_rows(std::vector<ParamSpec> spec, WeightRows rows) {
  if (rows == WeightRows::kAll) return spec;
  std::erase_if(spec, [rows](const ParamSpec& param) {
    return param.adapts.empty() == (rows == WeightRows::kAdapters);
  });
  return spec;
}

int64_t count_parameters(const std::vector<ParamSpec>& spec) {
  int64_t count = 0;
  for (const ParamSpec& param : spec) {
    if (param.trainable && param.tied_to.empty()) count += param.numel();
  }
  return count;
}

int64_t count_trained(const std::vector<ParamSpec>& spec) {
  int64_t count = 0;
  for (const ParamSpec& param : spec) {
    if (param.trainable && !param.frozen && param.tied_to.empty()) count += param.numel();
  }
  return count;
}

}  // namespace tessera
