#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/nn/attention/attention.h"
#include "tessera/nn/mlp.h"
#include "tessera/nn/module_calls.h"
#include "tessera/nn/streams/hyper_connection.h"

namespace tessera {

/// The norm at one place of a layer, or none: then its input is its output.
struct NormSeam {
  explicit NormSeam(NormPlace place);
  NormSeam(const NormSeam&) = delete;  // its call refers to it
  NormSeam& operator=(const NormSeam&) = delete;

  std::unique_ptr<Norm> norm;  // or null
  ModuleCall call;

  at::Tensor operator()(const at::Tensor& x_TH, const LayerContext& context) const;
};

/// x += dropout(after(attention(before(x)))); x += dropout(after(mlp(before(x)))). Which of the
/// norms there are is the family's choice. Where the residual has several streams (both
/// hyper-connections are there), a branch reads one mixture of them and its result goes into all: x
/// [T, N H] everywhere.
struct DecoderLayer {
  DecoderLayer();

  int64_t index = 0;  // in the whole model, from 0
  double hidden_dropout = 0.0;

  NormSeam before_attention{NormPlace::kBeforeAttention};
  std::unique_ptr<AttentionBlock> attention;
  NormSeam after_attention{NormPlace::kAfterAttention};
  NormSeam before_mlp{NormPlace::kBeforeMlp};
  std::unique_ptr<FeedForward> mlp;
  NormSeam after_mlp{NormPlace::kAfterMlp};

  std::unique_ptr<HyperConnection> attention_streams;  // or null, with the next
  std::unique_ptr<HyperConnection> mlp_streams;

  ModuleCall attention_call;
  ModuleCall mlp_call;  // {[T, H]} -> {[T, H], losses}

  size_t losses() const { return mlp->losses(); }

  /// [T, H] -> {[T, H], losses() scalars that belong to the objective}; [T, N H] with streams.
  Tensors run(const at::Tensor& x, const LayerContext& context);

  std::vector<Weight*> weights();
  /// All sub-modules that can be addressed by name, outer before inner.
  std::vector<ModuleCall*> modules();

  /// What reads the residual stream in front of attention, and in front of the feed-forward part.
  ModuleCall& first_of_attention();
  ModuleCall& first_of_mlp();

 private:
  /// x and what `branch` makes of it, together: their sum, or as the streams are mixed. The
  /// branch's first result is [T, H]; what else it has is passed on.
  template <typename Branch>
  Tensors with_residual(const at::Tensor& x, const HyperConnection* streams, int64_t site,
                        const LayerContext& context, const Branch& branch) const;
  at::Tensor attend(const at::Tensor& x_TH, const LayerContext& context);
  Tensors feed(const at::Tensor& x_TH, const LayerContext& context);
};

}  // namespace tessera
