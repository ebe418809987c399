#pragma once

// What a family decides about its decoder layers and no key of the file can change.

#include <map>
#include <string>
#include <vector>

#include "tessera/config/param_role.h"

namespace tessera {

enum class AttentionKind {
  kHeads,   // q, k and v of each head out of the residual stream; kv heads may be fewer
  kLatent,  // multi-head latent attention (arXiv 2405.04434, section 2.1)
};

/// The places of a layer where a norm may be. Norms of q and k are there if model.qk_layernorm says
/// so; under kLatent they work on the latent vectors, else on each head.
enum class NormPlace { kBeforeAttention, kQuery, kKey, kAfterAttention, kBeforeMlp, kAfterMlp };

struct LayerNorm {
  NormPlace place = NormPlace::kBeforeAttention;
  std::string name;  // of the module in the published model, relative to the layer

  bool operator==(const LayerNorm&) const = default;
};

/// The scale that a norm's weight w stands for.
enum class NormScale { kWeight, kOnePlusWeight };

/// What a norm of q and of k is taken over.
enum class QkNormSpan { kHead, kAllHeads };

/// Between gate and up of a feed-forward part: f(gate) * up.
enum class Activation {
  kSilu,     // SwiGLU
  kGeluTanh  // the tanh approximation of GELU
};

/// Whether something is in every model of a family, in none, or as the file asks.
enum class Presence { kNever, kAlways, kAsAsked };

/// Which products of a layer add a bias. Asked by model.attention_bias and model.mlp_bias.
struct ProjectionBiases {
  Presence qkv = Presence::kAsAsked;  // kLatent: of the products to the latent vectors
  Presence output = Presence::kAsAsked;
  Presence mlp = Presence::kAsAsked;  // gate, up and down of a layer without experts

  bool operator==(const ProjectionBiases&) const = default;
};

struct LayerDesign {
  AttentionKind attention = AttentionKind::kHeads;
  NormScale norm_scale = NormScale::kWeight;
  QkNormSpan qk_norm_span = QkNormSpan::kHead;
  bool rotary_pairs_neighbours = false;  // dimensions 2i and 2i + 1, not i and i + half
  bool attention_sinks = false;          // one more logit a head, whose share is dropped
  bool scaled_embedding = false;         // times the square root of hidden_size
  std::vector<LayerNorm> norms = {{NormPlace::kBeforeAttention, "input_layernorm"},
                                  {NormPlace::kQuery, "self_attn.q_norm"},
                                  {NormPlace::kKey, "self_attn.k_norm"},
                                  {NormPlace::kBeforeMlp, "post_attention_layernorm"}};
  ProjectionBiases biases;
  /// Published names of weights where they are not the usual ones (layout/weight_names.h), relative
  /// to the layer for weights in layers; "{e}" stands for the expert.
  std::map<ParamRole, std::string> weight_names;

  bool operator==(const LayerDesign&) const = default;
};

}  // namespace tessera
