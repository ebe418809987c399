#pragma once

// The plain decoder: any run of a model's layers, with or without its two ends. It owns weights
// that have no storage: the outside binds Weight::value before a call.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/config/model_config.h"
#include "tessera/models/decoder_layer.h"
#include "tessera/nn/layer_context.h"
#include "tessera/nn/norm.h"
#include "tessera/nn/rope.h"
#include "tessera/nn/seams.h"

namespace tessera {

/// What is gathered, run and freed together: the embedding, a layer, or the final norm and the
/// head.
struct DecoderUnit {
  enum class Kind { kEmbedding, kLayer, kHead };
  Kind kind = Kind::kLayer;
  DecoderLayer* layer = nullptr;  // of kLayer
  /// Each weight of the decoder is in one unit: a tied matrix in the embedding's when it is here.
  std::vector<Weight*> weights;
};

struct Decoder {
  std::unique_ptr<Embedding> embedding;               // or null
  std::vector<std::unique_ptr<DecoderLayer>> layers;  // each knows its index in the whole model
  std::unique_ptr<Norm> norm;                         // or null, with the head
  std::unique_ptr<LossHead> head;                     // or null
  Rope rope;

  /// Embedding, layers, norm + head: those that are here, in the order of the forward pass. Ask
  /// again after a seam was replaced.
  std::vector<DecoderUnit> units();

  /// What every call needs and only the model knows: the rotary tables. Once per micro-batch.
  void prepare(LayerContext& context) const;

  /// [T] ids -> [T, H].
  at::Tensor run_embedding(const LayerContext& context);
  /// Final norm and loss: [T, H] -> scalar.
  at::Tensor run_head(const at::Tensor& x_TH, const LayerContext& context);

  /// Everything that is here, in one graph: the loss, or [T, H] without a head. Without an
  /// embedding it starts from x_TH.
  at::Tensor forward(const LayerContext& context, at::Tensor x_TH = {});
};

/// Layers `layers` (indices in the whole model, ascending) of the model, with or without its ends.
/// Names and shapes are those of model_spec. When only the head of a tied model is here it has a
/// weight of its own named as the embedding. Throws ConfigError for what is not built.
std::unique_ptr<Decoder> build_decoder(const ModelConfig& model, const std::vector<int64_t>& layers,
                                       bool with_embedding, bool with_head);

}  // namespace tessera
