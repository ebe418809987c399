#pragma once

// Which experts a token goes to, and with what weights. T tokens, X experts, k choices.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/nn/parameter.h"

namespace tessera {

enum class ScoreFunction { kSoftmax, kSigmoid, kSqrtSoftplus };

/// Throws ConfigError for another name than softmax, sigmoid, sqrtsoftplus.
ScoreFunction score_function(const std::string& name);

struct Routes {
  at::Tensor logits;      // [T, X], in the type of the router
  at::Tensor expert_ids;  // [T, k] int64
  at::Tensor weights;     // [T, k], differentiable
};

/// Scores of all experts from a linear map; a token goes to its k best. A bias that no gradient
/// moves may steer the choice (Wang et al. 2024, arXiv 2408.15664), groups may limit it
/// (DeepSeek-V3, arXiv 2412.19437, section 2.1.2); neither changes the weights.
struct Router {
  Weight weight;    // [X, H], bound in the type in which it computes
  Weight offset;    // [X], added to the product, or absent
  at::Tensor bias;  // [X], or undefined; in the type of the router
  /// [V, k] int64, or undefined: the experts of each token id, chosen once and for all; scores only
  /// weigh them (hash layers of DeepSeek-V4). Neither bias nor groups nor force_balance choose
  /// then.
  at::Tensor table;
  ScoreFunction function = ScoreFunction::kSoftmax;
  int64_t top_k = 1;
  int64_t groups = 1;          // of neighbouring experts
  int64_t top_k_groups = 1;    // a token chooses from the groups whose two best experts sum highest
  bool normalize = true;       // weights of a token are divided by their sum
  double scale = 1.0;          // on the weights
  bool force_balance = false;  // for measurements: experts in turn by the token's place in the run

  std::vector<Weight*> weights();
  int64_t experts() const { return weight.parts.front().shape.front(); }
  /// `places` [T] int64: of each token in the run, only read with force_balance; or the token's id,
  /// with a table.
  Routes forward(const at::Tensor& x_TH, const at::Tensor& places) const;

  /// Scores that sum to one over the experts, from the logits: what the auxiliary loss is made of.
  /// Exact also where every score is tiny: no constant is added to a sum.
  at::Tensor normalized_scores(const at::Tensor& logits_TX) const;
};

}  // namespace tessera
