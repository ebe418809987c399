#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/config/model_config.h"

namespace tessera {

/// What a parameter does: how it is cut and whether it is decayed follow from it.
enum class ParamRole {
  kEmbedding,  // [vocab, hidden]
  kHead,       // [vocab, hidden]
  kNorm,       // [hidden], final or of a layer
  kAttnQ,      // [heads * head_dim, hidden]
  kAttnK,      // [kv_heads * head_dim, hidden]
  kAttnV,      // [kv_heads * head_dim, hidden]
  kAttnO,      // [hidden, heads * head_dim]
  kAttnQBias,
  kAttnKBias,
  kAttnVBias,
  kAttnOBias,
  kQNorm,  // [head_dim]; MLA: [q_lora_rank]
  kKNorm,  // [head_dim]; MLA: [kv_lora_rank]
  kMlaQA,  // [q_lora_rank, hidden]
  kMlaQABias,
  kMlaQB,   // [heads * (nope + rope), q_lora_rank]; without q_lora_rank [.., hidden]
  kMlaKvA,  // [kv_lora_rank + rope, hidden]
  kMlaKvABias,
  kMlaKvB,   // [heads * (nope + v), kv_lora_rank]
  kMlpGate,  // [intermediate, hidden]
  kMlpUp,    // [intermediate, hidden]
  kMlpDown,  // [hidden, intermediate]
  kMlpGateBias,
  kMlpUpBias,
  kMlpDownBias,
  kRouter,      // [experts, hidden]
  kRouterBias,  // [experts], moved by counts, not by gradients
  kExpertGate,  // [moe_intermediate, hidden], one expert
  kExpertUp,
  kExpertDown,  // [hidden, moe_intermediate]
  kSharedGate,  // [shared_intermediate, hidden]
  kSharedUp,
  kSharedDown,
  kSharedExpertGate,  // [1, hidden]
  kMtpEmbeddingNorm,  // enorm [hidden]
  kMtpHiddenNorm,     // hnorm [hidden]
  kMtpProjection,     // eh_proj [hidden, 2 * hidden]
};

/// A norm's weight: it starts at one, and is stored and used in layernorm_compute_dtype.
constexpr bool is_norm(ParamRole role) {
  return role == ParamRole::kNorm || role == ParamRole::kQNorm || role == ParamRole::kKNorm ||
         role == ParamRole::kMtpEmbeddingNorm || role == ParamRole::kMtpHiddenNorm;
}

struct ParamSpec {
  std::string name;            // Hugging Face name
  std::vector<int64_t> shape;  // as in the file: [out, in] for matrices
  ParamRole role = ParamRole::kNorm;
  int64_t layer = -1;     // decoder layer (MTP layers follow), -1 outside the layers
  int64_t expert = -1;    // index of the routed expert, else -1
  std::string tied_to;    // name of the parameter whose storage this is, else empty
  bool trainable = true;  // false: a buffer such as the router's selection bias

  int64_t numel() const;
};

/// All parameters of the family in the order of the model: embedding, layers, final norm, head,
/// multi-token prediction. A tied head is listed, with tied_to set.
/// Throws ConfigError when model_type is not one of llama, qwen3, qwen3_moe, deepseek_v3.
std::vector<ParamSpec> model_spec(const ModelConfig& model);

/// Elements of the trainable parameters, tied ones counted once.
int64_t count_parameters(const std::vector<ParamSpec>& spec);

}  // namespace tessera
