#include "tessera/layout/layer_modules.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/layout/weight_names.h"

namespace tessera {
namespace {

struct ModuleRow {
  std::vector<std::string> names;  // MindFormers', and Hugging Face's of what is no single weight
  std::vector<ParamRole> weights;  // whose modules' Hugging Face names follow
};

ModuleRow row_of(LayerModule module) {
  using enum LayerModule;
  using Role = ParamRole;
  switch (module) {
    case kNormBeforeAttention: return {{"input_layernorm"}, {}};
    case kAttention: return {{"self_attention", "self_attn"}, {}};
    case kQkv: return {{"self_attention.linear_qkv"}, {Role::kAttnQ, Role::kAttnK, Role::kAttnV}};
    case kLatentDown: return {{"self_attention.linear_qkv"}, {Role::kMlaQA, Role::kMlaKvA}};
    case kQueryNorm: return {{"self_attention.q_layernorm"}, {}};
    case kKeyNorm: return {{"self_attention.k_layernorm"}, {}};
    // Called q_proj where the query has no low rank.
    case kQueryUp: return {{"self_attention.linear_qb"}, {Role::kMlaQB, Role::kAttnQ}};
    case kKeyValueUp: return {{"self_attention.linear_kvb"}, {Role::kMlaKvB}};
    case kCore: return {{"self_attention.core_attention"}, {}};
    case kOutput: return {{"self_attention.linear_proj"}, {Role::kAttnO}};
    case kNormAfterAttention: return {{"post_self_attn_layernorm"}, {}};
    case kNormBeforeMlp: return {{"pre_mlp_layernorm"}, {}};
    case kMlp: return {{"mlp"}, {}};
    case kGateUp: return {{"mlp.linear_fc1"}, {Role::kMlpGate, Role::kMlpUp}};
    case kDown: return {{"mlp.linear_fc2"}, {Role::kMlpDown}};
    case kRouter: return {{"mlp.router"}, {Role::kRouter}};
    case kExperts: return {{"mlp.experts"}, {Role::kExpertGate}};
    case kSharedExperts: return {{"mlp.shared_experts"}, {}};
    case kNormAfterMlp: return {{"post_mlp_layernorm"}, {}};
  }
  TESSERA_CHECK(false, "no such module");
}

constexpr NormPlace kAllPlaces[] = {
    NormPlace::kBeforeAttention, NormPlace::kQuery,     NormPlace::kKey,
    NormPlace::kAfterAttention,  NormPlace::kBeforeMlp, NormPlace::kAfterMlp};

}  // namespace

LayerModule norm_module(NormPlace place) {
  switch (place) {
    case NormPlace::kBeforeAttention: return LayerModule::kNormBeforeAttention;
    case NormPlace::kQuery: return LayerModule::kQueryNorm;
    case NormPlace::kKey: return LayerModule::kKeyNorm;
    case NormPlace::kAfterAttention: return LayerModule::kNormAfterAttention;
    case NormPlace::kBeforeMlp: return LayerModule::kNormBeforeMlp;
    case NormPlace::kAfterMlp: return LayerModule::kNormAfterMlp;
  }
  TESSERA_CHECK(false, "no such place");
}

std::vector<std::string> module_names(LayerModule module, const LayerDesign& design) {
  ModuleRow row = row_of(module);
  const auto add = [&names = row.names](const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const ParamRole role : row.weights) add(module_of_weight(role, design));
  for (const NormPlace place : kAllPlaces) {
    if (norm_module(place) != module) continue;
    for (const LayerNorm& norm : design.norms) {
      if (norm.place == place) add(norm.name);
    }
  }
  return row.names;
}

bool result_is_overwritten(LayerModule module) {
  using enum LayerModule;
  return module == kQkv || module == kLatentDown || module == kGateUp;
}

bool is_inside(LayerModule module, LayerModule other) {
  using enum LayerModule;
  switch (module) {
    case kQkv:
    case kLatentDown:
    case kQueryNorm:
    case kKeyNorm:
    case kQueryUp:
    case kKeyValueUp:
    case kCore:
    case kOutput: return other == kAttention;
    case kGateUp:
    case kDown:
    case kRouter:
    case kExperts:
    case kSharedExperts: return other == kMlp;
    default: return false;
  }
}

std::vector<LayerModule> modules_of_layer(const ModelConfig& model, int64_t layer) {
  using enum LayerModule;
  std::vector<LayerModule> all;
  const auto add_norm = [&](NormPlace place) {
    if (model.norm_at(place)) all.push_back(norm_module(place));
  };
  add_norm(NormPlace::kBeforeAttention);
  all.push_back(kAttention);
  if (model.has_latent_attention()) {
    all.push_back(kLatentDown);
    if (model.q_lora_rank) add_norm(NormPlace::kQuery);
    add_norm(NormPlace::kKey);
    all.insert(all.end(), {kQueryUp, kKeyValueUp});
  } else {
    all.push_back(kQkv);
    add_norm(NormPlace::kQuery);
    add_norm(NormPlace::kKey);
  }
  all.insert(all.end(), {kCore, kOutput});
  add_norm(NormPlace::kAfterAttention);
  add_norm(NormPlace::kBeforeMlp);
  all.push_back(kMlp);
  if (model.is_moe_layer(layer)) {
    all.insert(all.end(), {kRouter, kExperts});
    if (model.n_shared_experts > 0) all.push_back(kSharedExperts);
  } else {
    all.insert(all.end(), {kGateUp, kDown});
  }
  add_norm(NormPlace::kAfterMlp);
  return all;
}

}  // namespace tessera
