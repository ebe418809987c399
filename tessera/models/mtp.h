#pragma once

// Multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2): one more layer that sees the
// main model's last state and the next token, and predicts the token after it.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/config/model_config.h"
#include "tessera/models/decoder_layer.h"
#include "tessera/models/weight_factory.h"
#include "tessera/nn/norm.h"
#include "tessera/nn/seams.h"
#include "tessera/nn/streams/hyper_connection.h"

namespace tessera {

struct MtpLayer {
  std::unique_ptr<Norm> embedding_norm;
  std::unique_ptr<Norm> hidden_norm;
  std::unique_ptr<Linear> projection;  // [H, 2 H]: embedding, then state
  std::unique_ptr<DecoderLayer> layer;
  int64_t streams = 1;                       // of the residual in `layer`
  std::unique_ptr<StreamHead> stream_head;   // their end, or null with one stream
  std::unique_ptr<Norm> norm;                // before the model's own head
  std::unique_ptr<Embedding> own_embedding;  // where the model's embedding is elsewhere, else null

  /// state [T, H] after the model's final norm, embedded [T, H] of the next tokens -> {normed [T,
  /// H], losses of the layer}. `shifted` is the context of the next tokens.
  Tensors run(const at::Tensor& state_TH, const at::Tensor& embedded_TH,
              const LayerContext& shifted);

  std::vector<Weight*> weights();
};

/// The context in which the layer for the next tokens runs: ids, labels, mask and positions are
/// those of one token later. Rotary tables are left to the caller.
LayerContext shifted_context(const LayerContext& context);

/// With names as in DeepSeek-V3's published files. The first layer behind the decoder's.
std::unique_ptr<MtpLayer> build_mtp(const ModelConfig& model, const WeightFactory& factory,
                                    std::unique_ptr<DecoderLayer> layer, bool with_embedding);

}  // namespace tessera
