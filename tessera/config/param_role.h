#pragma once

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
  kAttnSink,  // [heads]
  kQNorm,     // [head_dim] or [heads * head_dim]; MLA: [q_lora_rank]
  kKNorm,     // [head_dim] or [kv_heads * head_dim]; MLA: [kv_lora_rank]
  kMlaQA,     // [q_lora_rank, hidden]
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
  kRouter,        // [experts, hidden]
  kRouterBias,    // [experts], moved by counts, not by gradients
  kRouterOffset,  // [experts], added to the router's product and trained
  kExpertGate,    // [moe_intermediate, hidden], one expert
  kExpertUp,
  kExpertDown,      // [hidden, moe_intermediate]
  kExpertGateBias,  // [moe_intermediate], one expert
  kExpertUpBias,
  kExpertDownBias,  // [hidden], one expert
  kSharedGate,      // [shared_intermediate, hidden]
  kSharedUp,
  kSharedDown,
  kSharedExpertGate,  // [1, hidden]
  kMtpEmbeddingNorm,  // enorm [hidden]
  kMtpHiddenNorm,     // hnorm [hidden]
  kMtpProjection,     // eh_proj [hidden, 2 * hidden]
  // Low-rank adapters of a matrix [out, in]: A [rank, in], B [out, rank].
  kAdapter,         // A or B, whole on every rank of tp
  kAdapterRows,     // B of a matrix that tp cuts by rows
  kAdapterKvRows,   // B of k or v
  kAdapterColumns,  // A of a matrix that tp cuts by columns
  kExpertAdapter,   // A or B of one expert
};

/// A norm's weight: it starts at one, and is stored and used in layernorm_compute_dtype.
constexpr bool is_norm(ParamRole role) {
  return role == ParamRole::kNorm || role == ParamRole::kQNorm || role == ParamRole::kKNorm ||
         role == ParamRole::kMtpEmbeddingNorm || role == ParamRole::kMtpHiddenNorm;
}

}  // namespace tessera
