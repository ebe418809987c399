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
    if (stream_head) {
      for (Weight* weight : stream_head->weights()) unit.weights.push_back(weight);
    }
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
  at::Tensor x_TH = embedding->forward(context.token_ids);
  if (embedding_scale != 1.0) x_TH = x_TH * embedding_scale;
  return streams == 1 ? x_TH : as_streams(x_TH, streams);
}

at::Tensor Decoder::final_state(const at::Tensor& x) const {
  return norm->forward(stream_head ? stream_head->forward(x) : x);
}

at::Tensor Decoder::run_head(const at::Tensor& x, const LayerContext& context) {
  const at::Tensor normed_TH = final_state(x);
  return head->loss(normed_TH, context.labels, context.loss_mask, context.loss_scale(),
                    head->adapters.low(normed_TH, context));
}

Embedding& Decoder::mtp_embedding() {
  return mtp->own_embedding ? *mtp->own_embedding : *embedding;
}

Tensors Decoder::run_mtp(const at::Tensor& x, const LayerContext& context) {
  LayerContext shifted = shifted_context(context);
  prepare(shifted);
  Tensors out = mtp->run(final_state(x), mtp_embedding().forward(shifted.token_ids), shifted);
  out[0] = head->loss(out[0], shifted.labels, shifted.loss_mask, shifted.loss_scale(),
                      head->adapters.low(out[0], shifted));
  out.insert(out.begin(), x);
  return out;
}

}  // namespace tessera
