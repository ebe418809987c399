#include "tessera/optim/weight_decay.h"

#include <fnmatch.h>

namespace tessera {
namespace {

bool matches(const std::string& rule, const std::string& name) {
  return name.find(rule) != std::string::npos || fnmatch(rule.c_str(), name.c_str(), 0) == 0;
}

bool any_matches(const std::optional<std::vector<std::string>>& rules,
                 const std::vector<std::string>& names) {
  if (!rules) return false;
  for (const std::string& rule : *rules) {
    for (const std::string& name : names) {
      if (matches(rule, name)) return true;
    }
  }
  return false;
}

// What MindFormers calls the tensor that holds this parameter (fused there: several map to one).
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

}  // namespace

bool is_decayed(const OptimizerConfig& config, const std::string& name, size_t dimensions) {
  const std::vector<std::string> names{name, mindformers_name(name)};
  if (any_matches(config.weight_decay_include, names)) return true;
  if (any_matches(config.weight_decay_exclude, names)) return false;
  return dimensions > 1 && !name.ends_with(".bias");
}

}  // namespace tessera
