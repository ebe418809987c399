#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/nn/module_calls.h"

namespace tessera {

/// The attention of a layer, between its norm and its residual sum.
struct AttentionBlock {
  virtual ~AttentionBlock() = default;
  virtual at::Tensor forward(const at::Tensor& x_TH, const LayerContext& context) = 0;
  virtual std::vector<Weight*> weights() = 0;
  virtual std::vector<ModuleCall*> modules() = 0;
};

/// Grouped-query attention with rotary embedding; optional norms over each head of q and k, or over
/// all heads of q and all of k. Heads are counted in the projections' outputs, so a cut projection
/// means fewer heads here.
struct Attention : AttentionBlock {
  int64_t head_dim = 0;
  std::unique_ptr<Projections> qkv_proj;  // parts q, k, v
  std::unique_ptr<Norm> q_norm;           // [head_dim], [heads * head_dim], or null
  std::unique_ptr<Norm> k_norm;
  QkNormSpan norm_span = QkNormSpan::kHead;
  bool pairs_neighbours = false;  // rotary pairs are dimensions 2i and 2i + 1, not i and i + half
  bool has_window = false;        // rotated by the tables of layers with a window
  std::unique_ptr<CoreAttention> core;
  std::unique_ptr<Linear> o_proj;

  ModuleCall qkv_call = stacked_call(LayerModule::kQkv, qkv_proj);
  ModuleCall q_norm_call = norm_call(LayerModule::kQueryNorm, q_norm);
  ModuleCall k_norm_call = norm_call(LayerModule::kKeyNorm, k_norm);
  ModuleCall core_call = tessera::core_call(core);
  ModuleCall o_call = linear_call(LayerModule::kOutput, o_proj);

  at::Tensor forward(const at::Tensor& x_TH, const LayerContext& context) override;
  std::vector<Weight*> weights() override;
  std::vector<ModuleCall*> modules() override;

 private:
  const at::Tensor& rope_cos(const LayerContext& context) const;
  const at::Tensor& rope_sin(const LayerContext& context) const;
  at::Tensor rotated(const at::Tensor& x_TND, const LayerContext& context) const;
  // q, k, v as heads, normalised and rotated, and offered to `call` unless it is null: part by part
  // (where a part goes its own way), or in one pass over their stacked products.
  Tensors heads_of_parts(const at::Tensor& x_TH, const LayerContext& context, AttentionCall* call);
  Tensors heads_at_once(const at::Tensor& x_TH, const LayerContext& context, AttentionCall* call);
};

}  // namespace tessera
