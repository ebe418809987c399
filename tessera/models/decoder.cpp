#include "tessera/models/decoder.h"

#include <ATen/ATen.h>

#include <tuple>

namespace tessera {

std::vector<DecoderUnit> Decoder::units() {
  using Kind = DecoderUnit::Kind;
  std::vector<DecoderUnit> all;
  if (embedding) all.push_back({Kind::kEmbedding, nullptr, {&embedding->weight}});
  for (const auto& layer : layers) {
    all.push_back({Kind::kLayer, layer.get(), layer->weights()});
  }
  if (mtp) all.push_back({Kind::kMtp, mtp->layer.get(), mtp->weights()});
  if (head) {
    DecoderUnit unit{Kind::kHead, nullptr, {&norm->weight}};
    if (head->own_weight) unit.weights.push_back(head->own_weight.get());
    head->adapters.add_weights(unit.weights);
    all.push_back(std::move(unit));
  }
  return all;
}

std::vector<DecoderLayer*> Decoder::all_layers() {
  std::vector<DecoderLayer*> all;
  for (const auto& layer : layers) all.push_back(layer.get());
  if (mtp) all.push_back(mtp->layer.get());
  return all;
}

void Decoder::prepare(LayerContext& context) const {
  std::tie(context.rope_cos, context.rope_sin) = rope.tables(context.positions);
  if (!window_rope) return;
  std::tie(context.window_rope_cos, context.window_rope_sin) =
      window_rope->tables(context.positions);
}

at::Tensor Decoder::run_embedding(const LayerContext& context) {
  const at::Tensor x_TH = embedding->forward(context.token_ids);
  return embedding_scale == 1.0 ? x_TH : x_TH * embedding_scale;
}

at::Tensor Decoder::run_head(const at::Tensor& x_TH, const LayerContext& context) {
  const at::Tensor normed_TH = norm->forward(x_TH);
  return head->loss(normed_TH, context.labels, context.loss_mask, context.loss_scale(),
                    head->adapters.low(normed_TH, context));
}

Embedding& Decoder::mtp_embedding() {
  return mtp->own_embedding ? *mtp->own_embedding : *embedding;
}

Tensors Decoder::run_mtp(const at::Tensor& x_TH, const LayerContext& context) {
  LayerContext shifted = shifted_context(context);
  prepare(shifted);
  Tensors out = mtp->run(norm->forward(x_TH), mtp_embedding().forward(shifted.token_ids), shifted);
  out[0] = head->loss(out[0], shifted.labels, shifted.loss_mask, shifted.loss_scale(),
                      head->adapters.low(out[0], shifted));
  out.insert(out.begin(), x_TH);
  return out;
}

}  // namespace tessera
