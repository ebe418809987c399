#pragma once

// The plain decoder: any run of a model's layers, with or without its two ends. It owns weights
// that have no storage: the outside binds Weight::value before a call.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/config/model_config.h"
#include "tessera/models/decoder_layer.h"
#include "tessera/models/mtp.h"
#include "tessera/nn/attention/rope.h"
#include "tessera/nn/layer_context.h"
#include "tessera/nn/norm.h"
#include "tessera/nn/seams.h"
#include "tessera/nn/streams/hyper_connection.h"

namespace tessera {

/// What is gathered, run and freed together: the embedding, a layer, the layer for multi-token
/// prediction (which also uses the embedding and the head), or the final norm and the head.
struct DecoderUnit {
  enum class Kind { kEmbedding, kLayer, kMtp, kHead };
  Kind kind = Kind::kLayer;
  DecoderLayer* layer = nullptr;  // of kLayer and kMtp
  /// Each weight of the decoder is in one unit: a tied matrix in the embedding's when it is here.
  std::vector<Weight*> weights;
};

struct Decoder {
  std::unique_ptr<Embedding> embedding;               // or null
  std::vector<std::unique_ptr<DecoderLayer>> layers;  // each knows its index in the whole model
  std::unique_ptr<Norm> norm;                         // or null, with the head
  std::unique_ptr<LossHead> head;                     // or null
  std::unique_ptr<MtpLayer> mtp;                      // or null, beside the head
  double embedding_scale = 1.0;
  int64_t streams = 1;                      // N: of the residual
  std::unique_ptr<StreamHead> stream_head;  // in front of the norm where N is above 1, else null
  Rope rope;
  std::optional<Rope> window_rope;  // of layers with a window, where they have their own

  /// The decoder's layers and the one inside mtp: everything that a seam may be replaced in.
  std::vector<DecoderLayer*> all_layers();

  /// Embedding, layers, mtp, norm + head: those that are here, in the order of the forward pass.
  /// Ask again after a seam was replaced.
  std::vector<DecoderUnit> units();

  /// What every call needs and only the model knows: the rotary tables. Once per micro-batch.
  void prepare(LayerContext& context) const;

  /// [T] ids -> [T, N H].
  at::Tensor run_embedding(const LayerContext& context);
  /// End of the streams, final norm and loss: [T, N H] -> scalar.
  at::Tensor run_head(const at::Tensor& x, const LayerContext& context);

  /// The embedding that multi-token prediction uses.
  Embedding& mtp_embedding();
  /// The state that the head and multi-token prediction see: [T, N H] -> [T, H], normed.
  at::Tensor final_state(const at::Tensor& x) const;
  /// Streams before their end [T, N H] -> {the same, the loss of the tokens after the next
  /// (weighted), losses of its layer}.
  Tensors run_mtp(const at::Tensor& x, const LayerContext& context);
};

/// Layers `layers` (indices in the whole model, ascending) of the model, with or without its ends.
/// Names and shapes are those of model_spec. When only the head of a tied model is here it has a
/// weight of its own named as the embedding. Throws ConfigError for what is not built.
std::unique_ptr<Decoder> build_decoder(const ModelConfig& model, const std::vector<int64_t>& layers,
                                       bool with_embedding, bool with_head);

}  // namespace tessera
