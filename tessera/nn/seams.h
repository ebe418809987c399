#pragma once

// The places where a plain layer can be replaced from outside (tensor, context and expert
// parallelism). The base classes are the plain mathematics; a parallel version takes over the
// weights of a plain one, marks how they are cut, and does its communication inside.
// Shapes: T tokens on this rank, H hidden, V vocabulary, D head size.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tessera/nn/adapters.h"
#include "tessera/nn/attention/attention_scores.h"
#include "tessera/nn/layer_context.h"
#include "tessera/nn/parameter.h"

namespace tessera {

/// y = x W^T + b, [T, in] -> [T, out], and what an adapter of W adds.
struct Linear {
  Weight weight;  // [out, in]
  Weight bias;    // [out] or absent
  Adapters adapters;
  virtual ~Linear() = default;
  virtual at::Tensor forward(const at::Tensor& x_TI, const LayerContext& context);
  std::vector<Weight*> weights();
};

/// Several matrices over one input: one product over the stacked rows, then one output per part.
struct Projections {
  Weight weight;                   // rows of all parts, [sum of out_i, in]
  Weight bias;                     // stacked the same way, or absent
  Adapters adapters;               // of some of the parts
  std::vector<int64_t> part_rows;  // rows of each part as bound here (cut, if they are cut)
  bool in_turn = false;            // one product per part, each handed out as soon as it is ready
  using Receive = std::function<void(size_t part, at::Tensor y_TO)>;
  virtual ~Projections() = default;
  /// [T, in] -> [T, sum of out_i], the parts side by side. The caller may overwrite it.
  virtual at::Tensor stacked(const at::Tensor& x_TI, const LayerContext& context);
  /// [T, in] -> receive(i, [T, out_i]) for each part in order; views of one buffer unless in_turn.
  virtual void forward(const at::Tensor& x_TI, const LayerContext& context, const Receive& receive);
  std::vector<Weight*> weights();
};

struct Embedding {
  Weight weight;  // [V, H]
  virtual ~Embedding() = default;
  /// ids [T] -> [T, H] (the residual tokens only, where the stream is sliced).
  virtual at::Tensor forward(const at::Tensor& ids_T);
};

/// The last product and the loss over it; the logits need never exist as a whole.
struct LossHead {
  Weight* weight = nullptr;  // [V, H]; own_weight, or the embedding's where they are tied
  std::unique_ptr<Weight> own_weight;
  int64_t chunks = 0;   // pieces of tokens one after the other; 0: chosen by size
  double soft_cap = 0;  // above 0: a logit z becomes soft_cap * tanh(z / soft_cap)
  Adapters adapters;    // of the product, or none
  LossHead() = default;
  LossHead(LossHead&&) = default;
  virtual ~LossHead() = default;
  /// Scalar: loss_scale x sum over tokens of mask x cross entropy (natural logarithm), in float32
  /// (float64 for a float64 model). `low_TR`: what the adapter's A makes of x (Adapters::low).
  virtual at::Tensor loss(const at::Tensor& x_TH, const at::Tensor& labels_T,
                          const at::Tensor& mask_T, double loss_scale,
                          const at::Tensor& low_TR = {});
  /// [T, V] in the compute dtype: for tests and export checks.
  virtual at::Tensor logits(const at::Tensor& x_TH);

 protected:
  at::Tensor capped(const at::Tensor& logits) const;
};

enum class AttentionInput { kQuery, kKey, kValue };

/// One call of attention. Tensors are offered as soon as they are ready, in any order, so that a
/// parallel version can start to move them; attend() is called once, when all three were offered.
struct AttentionCall {
  virtual ~AttentionCall() = default;
  virtual void offer(AttentionInput which, at::Tensor x_TND) = 0;  // [T, heads or kv heads, D]
  virtual at::Tensor attend() = 0;                                 // [T, heads, D of the values]
};

/// softmax(q k^T * scale) v, causal inside each document of each sample; what else may be in it,
/// see AttentionScores.
struct CoreAttention {
  double scale = 0;     // 1/sqrt(D) unless the model says otherwise
  double soft_cap = 0;  // of the scores; 0: none
  int64_t window = 0;   // keys that a query sees, itself the last; 0: all before it
  Weight sinks;         // [N] or absent
  int64_t layer = -1;   // whose attention this is, for what it writes on the side
  virtual ~CoreAttention() = default;
  AttentionScores scores() const { return {scale, soft_cap, window, sinks.value}; }
  virtual std::unique_ptr<AttentionCall> begin(const LayerContext& context);
};

}  // namespace tessera
