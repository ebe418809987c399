#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/nn/attention/attention.h"
#include "tessera/nn/mlp.h"
#include "tessera/nn/module_call.h"
#include "tessera/nn/norm.h"

namespace tessera {

/// x += dropout(attention(norm(x))); x += dropout(mlp(norm(x))).
struct DecoderLayer {
  DecoderLayer();

  int64_t index = 0;  // in the whole model, from 0
  double hidden_dropout = 0.0;
  std::unique_ptr<Norm> input_norm;
  std::unique_ptr<AttentionBlock> attention;
  std::unique_ptr<Norm> post_attention_norm;
  std::unique_ptr<FeedForward> mlp;

  ModuleCall input_norm_call;
  ModuleCall attention_call;
  ModuleCall post_attention_norm_call;
  ModuleCall mlp_call;

  /// The pieces of one call, to be run in order on {x_TH}; the last returns {[T, H]} and losses()
  /// scalars that belong to the objective. A dense layer: "attention", "mlp"; one with experts:
  /// "attention", "dispatch", "experts", "combine". Ask for new ones for every call: they may share
  /// state.
  std::vector<Segment> segments();
  size_t losses() const { return mlp->losses(); }

  /// [T, H] -> {[T, H], losses}: the segments in order.
  Tensors run(const at::Tensor& x_TH, const LayerContext& context);

  std::vector<Weight*> weights();
  /// All sub-modules that can be addressed by name, outer before inner.
  std::vector<ModuleCall*> modules();
};

}  // namespace tessera
