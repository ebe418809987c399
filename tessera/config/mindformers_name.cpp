#include "tessera/config/mindformers_name.h"

#include <utility>
#include <vector>

namespace tessera {

std::string mindformers_name(std::string name) {
  static const std::vector<std::pair<std::string, std::string>> kRenames = {
      {"model.embed_tokens.", "embedding.word_embeddings."},
      {"lm_head.", "output_layer."},
      {"model.norm.", "decoder.final_layernorm."},
      {"model.layers.", "decoder.layers."},
      {".post_attention_layernorm.", ".pre_mlp_layernorm."},
      {".self_attn.", ".self_attention."},
      {".q_proj.", ".linear_qkv."},
      {".k_proj.", ".linear_qkv."},
      {".v_proj.", ".linear_qkv."},
      {".o_proj.", ".linear_proj."},
      {".q_norm.", ".q_layernorm."},
      {".k_norm.", ".k_layernorm."},
      {".q_a_layernorm.", ".q_layernorm."},
      {".kv_a_layernorm.", ".k_layernorm."},
      {".q_a_proj.", ".linear_qkv."},
      {".kv_a_proj_with_mqa.", ".linear_qkv."},
      {".q_b_proj.", ".linear_qb."},
      {".kv_b_proj.", ".linear_kvb."},
      {".mlp.gate_proj.", ".mlp.linear_fc1."},
      {".mlp.up_proj.", ".mlp.linear_fc1."},
      {".mlp.down_proj.", ".mlp.linear_fc2."},
      {".mlp.gate.", ".mlp.router."},
  };
  for (const auto& [from, to] : kRenames) {
    const size_t at = name.find(from);
    if (at != std::string::npos) name.replace(at, from.size(), to);
  }
  return name;
}

}  // namespace tessera
