#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/nn/attention/attention.h"
#include "tessera/nn/compressed/indexer.h"
#include "tessera/nn/compressed/key_compressor.h"

namespace tessera {

/// Attention over a window of single tokens and over compressed entries (DeepSeek-V4, as
/// transformers has it). Queries have a low rank; all heads share one key, which is also the value;
/// the last numbers of both are rotated, and the result is rotated back by the place of its query.
/// The heads lie in groups, each with an output matrix of its own in front of the common one.
struct CompressedAttention : AttentionBlock {
  int64_t head_dim = 0;      // D
  int64_t window = 0;        // single tokens that a query sees, itself the last
  double norm_eps = 1e-6;    // of the norm of a query head, which has no weight
  bool window_rope = false;  // rotated by the tables of layers with a window (no entries), not by
                             // those of the others

  std::unique_ptr<Projections> down_proj;     // two parts: latent query, key
  std::unique_ptr<Norm> q_norm;               // of the latent query
  std::unique_ptr<Norm> k_norm;               // [D]
  std::unique_ptr<Linear> q_up;               // [heads D, latent]
  Weight sinks;                               // [heads]
  std::unique_ptr<KeyCompressor> compressor;  // or null: the window alone
  std::unique_ptr<Indexer> indexer;           // or null: every entry that a query can see
  Weight group_out;                           // [groups r, heads D / groups], group after group
  int64_t groups = 1;
  std::unique_ptr<Linear> o_proj;  // [H, groups r]

  ModuleCall down_call = stacked_call(LayerModule::kLatentDown, down_proj);
  ModuleCall q_norm_call = norm_call(LayerModule::kQueryNorm, q_norm);
  ModuleCall k_norm_call = norm_call(LayerModule::kKeyNorm, k_norm);
  ModuleCall q_up_call = linear_call(LayerModule::kQueryUp, q_up);
  ModuleCall core_call;  // {x, latent query, q, key} -> {[T, heads, D]}, compressor and indexer too
  ModuleCall o_call = linear_call(LayerModule::kOutput, o_proj);

  CompressedAttention();
  at::Tensor forward(const at::Tensor& x_TH, const LayerContext& context) override;
  std::vector<Weight*> weights() override;
  std::vector<ModuleCall*> modules() override;

  /// The entries that each query attends over, as in SharedKeys, or undefined without an indexer.
  at::Tensor chosen(const at::Tensor& x_TH, const at::Tensor& latent_TL,
                    const LayerContext& context) const;

 private:
  at::Tensor attend(const Tensors& inputs, const LayerContext& context) const;
  at::Tensor grouped_out(const at::Tensor& out_TND) const;
};

}  // namespace tessera
