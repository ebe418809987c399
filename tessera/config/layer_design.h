#pragma once

// What a family decides about its decoder layers and no key of the file can change.

#include <cstdint>
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

/// Whether something is in every model of a family, in none, or as the file asks.
enum class Presence { kNever, kAlways, kAsAsked };

/// Which products of a layer add a bias. Asked by model.attention_bias and model.mlp_bias.
struct ProjectionBiases {
  Presence qkv = Presence::kAsAsked;  // kLatent: of the products to the latent vectors
  Presence output = Presence::kAsAsked;
  Presence mlp = Presence::kAsAsked;    // gate, up and down of a layer without experts
  Presence experts = Presence::kNever;  // gate, up and down of every routed expert
  Presence router = Presence::kNever;   // of the router's product

  bool operator==(const ProjectionBiases&) const = default;
};

/// A tensor of the published model that holds several of ours, one after the other in its rows.
/// Those of experts have the expert as their first dimension.
struct PublishedStack {
  std::string name;  // relative to the layer
  std::vector<ParamRole> parts;
  bool transposed = false;   // [in, out] instead of [out, in]
  bool alternating = false;  // row i of each part, then row i + 1 of each

  bool operator==(const PublishedStack&) const = default;
};

struct LayerDesign {
  AttentionKind attention = AttentionKind::kHeads;
  NormScale norm_scale = NormScale::kWeight;
  QkNormSpan qk_norm_span = QkNormSpan::kHead;
  bool rotary_pairs_neighbours = false;  // dimensions 2i and 2i + 1, not i and i + half
  bool attention_sinks = false;          // one more logit a head, whose share is dropped
  bool scaled_embedding = false;         // times the square root of hidden_size
  /// A gated part computes gate * sigmoid(gate_slope * gate) * (up + up_shift).
  double gate_slope = 1.0;
  double up_shift = 0.0;
  /// Which layers have a window where the file does not say it by layer_types: 0: all, n: all but
  /// every n-th. `asks_for_window`: only with use_sliding_window, and not the first
  /// max_window_layers.
  bool has_windows = false;  // the family may have them at all
  int64_t full_attention_every = 0;
  bool asks_for_window = false;
  bool plain_window_rope = false;  // no rope_scaling in layers with a window
  std::vector<LayerNorm> norms = {{NormPlace::kBeforeAttention, "input_layernorm"},
                                  {NormPlace::kQuery, "self_attn.q_norm"},
                                  {NormPlace::kKey, "self_attn.k_norm"},
                                  {NormPlace::kBeforeMlp, "post_attention_layernorm"}};
  ProjectionBiases biases;
  /// Published names of weights where they are not the usual ones (layout/weight_names.h), relative
  /// to the layer for weights in layers; "{e}" stands for the expert.
  std::map<ParamRole, std::string> weight_names;
  std::vector<PublishedStack> stacks;

  bool operator==(const LayerDesign&) const = default;
};

}  // namespace tessera
