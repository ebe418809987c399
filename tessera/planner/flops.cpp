#include "tessera/planner/flops.h"

namespace tessera {
namespace {

// Of a product by a weight: forward, gradient of the input, and that of the weight unless it is
// frozen.
double per_weight(const ModelConfig& m) { return m.lora.is_given() ? 4.0 : 6.0; }

// Per token and layer.
double attention_flops(const ModelConfig& m, double s) {
  const double w = per_weight(m);
  const auto h = static_cast<double>(m.hidden_size);
  const auto heads = static_cast<double>(m.num_attention_heads);
  if (m.design().attention == AttentionKind::kHeads) {
    const double q = heads * static_cast<double>(m.head_dim);
    const auto kv = static_cast<double>(m.num_key_value_heads * m.head_dim);
    return w * (h * (q + 2 * kv) + q * h) + 6.0 * q * s;
  }
  const auto dn = static_cast<double>(m.qk_nope_head_dim);
  const auto dr = static_cast<double>(m.qk_rope_head_dim);
  const auto dv = static_cast<double>(m.v_head_dim);
  const auto kvl = static_cast<double>(m.kv_lora_rank);
  const double query = m.q_lora_rank
                           ? static_cast<double>(*m.q_lora_rank) * (h + heads * (dn + dr) + 1)
                           : h * heads * (dn + dr);
  return w * (query + kvl * (h + heads * (dn + dv) + 1) + h * dr + heads * dv * h) +
         6.0 * (s * heads * (dn + dr) / 2 + s * heads * dv / 2);
}

}  // namespace

double model_flops(const ModelConfig& m, double samples, double seq_length) {
  const auto h = static_cast<double>(m.hidden_size);
  const auto mtp = static_cast<double>(m.num_nextn_predict_layers);
  constexpr double kMatrices = 3;  // gate, up, down
  double feed_forward = 0;
  for (int64_t layer = 0; layer < m.num_hidden_layers + m.num_nextn_predict_layers; ++layer) {
    const int64_t like = layer < m.num_hidden_layers ? layer : m.num_hidden_layers - 1;
    const int64_t width = m.is_moe_layer(like) ? m.moe_intermediate_size * m.num_experts_per_tok +
                                                     m.moe_shared_expert_intermediate_size
                                               : m.intermediate_size;
    feed_forward += kMatrices * static_cast<double>(width);
  }
  const double per_token =
      per_weight(m) * h * feed_forward +
      attention_flops(m, seq_length) * (static_cast<double>(m.num_hidden_layers) + mtp) +
      per_weight(m) *
          (mtp * (3 * h + 2 * h * h) + h * static_cast<double>(m.vocab_size) * (mtp + 1));
  return per_token * samples * seq_length;
}

}  // namespace tessera
