#pragma once

// Losses that keep a router balanced and its logits small. T tokens, X experts, k choices; G groups
// of tokens over which balance is judged.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "tessera/nn/experts/router.h"
#include "tessera/nn/layer_context.h"

namespace tessera {

/// Sums of counts over whoever holds other tokens of the same group. The plain one has them all.
struct RouterStatistics {
  virtual ~RouterStatistics() = default;
  /// Over the ranks that hold pieces of the same samples.
  virtual at::Tensor over_samples(at::Tensor counts) { return counts; }
  /// Over all ranks that hold tokens of the global batch.
  virtual at::Tensor over_batch(at::Tensor counts) { return counts; }
};

/// Over which tokens the load is balanced: each sequence, a micro-batch, the global batch.
enum class BalanceScope { kSequence, kMicroBatch, kGlobalBatch };

/// Throws ConfigError for another name than seq_aux_loss, aux_loss, global_aux_loss.
BalanceScope balance_scope(const std::string& name);

/// balance x (mean over the groups of the global batch of X / (k n^2) x sum_x (sum_t score_tx)
/// count_x, n tokens in the group) + z x (mean over the routed tokens of the global batch of
/// logsumexp(logits)^2). (Fedus et al. 2021, arXiv 2101.03961, 2.2; Zoph et al. 2022, arXiv
/// 2202.08906, 2.2.) Each rank computes its tokens' share: the sum over ranks and micro-batches is
/// the loss. Counts are constants, so that only they are summed over ranks.
struct RouterLoss {
  double balance = 0.0;  // coefficients
  double z = 0.0;
  BalanceScope scope = BalanceScope::kSequence;
  std::unique_ptr<RouterStatistics> statistics = std::make_unique<RouterStatistics>();

  bool on() const { return balance > 0 || z > 0; }
  /// Scalar. `rows` [T] int64: row of the micro-batch that a token belongs to. What is logged goes
  /// to the context's sinks under `layer`.
  at::Tensor forward(const Router& router, const at::Tensor& logits_TX, const at::Tensor& rows,
                     int64_t layer, const LayerContext& context) const;
};

}  // namespace tessera
