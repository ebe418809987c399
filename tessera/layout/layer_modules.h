#pragma once

// The sub-modules of a decoder layer that a configuration can address (recompute.select_module):
// which there are and what they are called. The layers of nn/ say which of them they are.

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/config/model_config.h"

namespace tessera {

enum class LayerModule {
  kNormBeforeAttention,
  kAttention,   // all of it; what follows is inside
  kQkv,         // the products to q, k and v
  kLatentDown,  // latent attention: the products to the latent vectors
  kQueryNorm,   // of the heads of q, or of the latent query
  kKeyNorm,
  kQueryUp,  // latent attention: from the latent query to the heads of q
  kKeyValueUp,
  kCore,  // softmax(q k^T) v
  kOutput,
  kNormAfterAttention,
  kNormBeforeMlp,
  kMlp,  // all of the feed-forward part; what follows is inside
  kGateUp,
  kDown,
  kRouter,
  kExperts,
  kSharedExperts,
  kNormAfterMlp,
};

/// The names of a module, relative to the layer: MindFormers' first ("self_attention.linear_qkv"),
/// then Hugging Face's as the family has them ("self_attn.q_proj", ...).
std::vector<std::string> module_names(LayerModule module, const LayerDesign& design);

/// The module at a place of a norm.
LayerModule norm_module(NormPlace place);

/// Whether what reads the result of `module` may write into it: products of stacked matrices are
/// rotated and activated in place.
bool result_is_overwritten(LayerModule module);

/// The modules that have others inside.
inline constexpr LayerModule kOuterModules[] = {LayerModule::kAttention, LayerModule::kMlp};

/// Whether `module` is a part of `other`.
bool is_inside(LayerModule module, LayerModule other);

/// The modules of decoder layer `layer`, outer before inner; layers for multi-token prediction
/// follow the decoder's.
std::vector<LayerModule> modules_of_layer(const ModelConfig& model, int64_t layer);

}  // namespace tessera
