#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/nn/attention/attention.h"

namespace tessera {

/// From the tokens of the residual stream on this rank to those that its heads attend over: the
/// same unless the stream is sliced.
struct SequenceGather {
  virtual ~SequenceGather() = default;
  virtual at::Tensor forward(const at::Tensor& x_TC) {  // [T here, C] -> [T, C]
    return x_TC;
  }
};

/// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): queries (where they
/// have a low rank) and keys with values come out of small latent vectors; part of each key is
/// rotated and shared by all heads. Heads are counted in q_up's output. dn, dr: sizes of the
/// unrotated and the rotated part of a query head, dv: of a value head.
struct LatentAttention : AttentionBlock {
  int64_t nope_dim = 0;     // dn
  int64_t rope_dim = 0;     // dr
  int64_t value_dim = 0;    // dv
  bool interleaved = true;  // rotary pairs are neighbours; else halves apart

  std::unique_ptr<Projections> down_proj;  // parts q (if it has a low rank), kv + dr
  std::unique_ptr<Norm> q_norm;            // of the latent query, or null
  std::unique_ptr<Norm> kv_norm;           // of the latent keys and values, or null
  std::unique_ptr<SequenceGather> gather = std::make_unique<SequenceGather>();
  std::unique_ptr<Linear> q_up;   // [heads (dn + dr), latent or hidden]
  std::unique_ptr<Linear> kv_up;  // [heads (dn + dv), latent]
  std::unique_ptr<CoreAttention> core;
  std::unique_ptr<Linear> o_proj;

  bool low_rank_queries() const { return down_proj->weight.parts.size() > 1; }

  ModuleCall down_call = stacked_call(LayerModule::kLatentDown, down_proj);
  ModuleCall q_norm_call = norm_call(LayerModule::kQueryNorm, q_norm);
  ModuleCall kv_norm_call = norm_call(LayerModule::kKeyNorm, kv_norm);
  ModuleCall q_up_call = linear_call(LayerModule::kQueryUp, q_up);
  ModuleCall kv_up_call = linear_call(LayerModule::kKeyValueUp, kv_up);
  ModuleCall core_call = tessera::core_call(core);
  ModuleCall o_call = linear_call(LayerModule::kOutput, o_proj);

  at::Tensor forward(const at::Tensor& x_TH, const LayerContext& context) override;
  std::vector<Weight*> weights() override;
  std::vector<ModuleCall*> modules() override;

 private:
  at::Tensor rotated(const at::Tensor& x_TNR, const LayerContext& context) const;
};

}  // namespace tessera
