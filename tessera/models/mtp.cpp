#include "tessera/models/mtp.h"

#include <ATen/ATen.h>

#include "tessera/base/error.h"
#include "tessera/models/build_parts.h"

namespace tessera {

Tensors MtpLayer::run(const at::Tensor& state_TH, const at::Tensor& embedded_TH,
                      const LayerContext& shifted) {
  const at::Tensor both_T2H =
      at::cat({embedding_norm->forward(embedded_TH), hidden_norm->forward(state_TH)}, 1);
  const at::Tensor x_TH = projection->forward(both_T2H, shifted);
  Tensors out = layer->run(streams == 1 ? x_TH : as_streams(x_TH, streams), shifted);
  out[0] = norm->forward(stream_head ? stream_head->forward(out[0]) : out[0]);
  return out;
}

std::vector<Weight*> MtpLayer::weights() {
  std::vector<Weight*> all{&embedding_norm->weight, &hidden_norm->weight};
  for (Weight* weight : projection->weights()) all.push_back(weight);
  for (Weight* weight : layer->weights()) all.push_back(weight);
  if (stream_head) {
    for (Weight* weight : stream_head->weights()) all.push_back(weight);
  }
  all.push_back(&norm->weight);
  if (own_embedding) all.push_back(&own_embedding->weight);
  return all;
}

LayerContext shifted_context(const LayerContext& context) {
  TESSERA_CHECK(context.next_ids.defined() && context.next_positions.defined(),
                "multi-token prediction needs the next tokens");
  LayerContext shifted = context;
  shifted.token_ids = context.next_ids;
  shifted.labels = context.next_labels;
  shifted.loss_mask = context.next_loss_mask;
  shifted.positions = context.next_positions;
  shifted.predicts_next = true;
  return shifted;
}

std::unique_ptr<MtpLayer> build_mtp(const ModelConfig& model, const WeightFactory& factory,
                                    std::unique_ptr<DecoderLayer> layer, bool with_embedding) {
  const int64_t index = layer->index;
  auto mtp = std::make_unique<MtpLayer>();
  mtp->embedding_norm = make_norm(model, factory, index, "enorm");
  mtp->hidden_norm = make_norm(model, factory, index, "hnorm");
  mtp->projection = std::make_unique<Linear>();
  mtp->projection->weight = factory.make(index, {ParamRole::kMtpProjection});
  mtp->layer = std::move(layer);
  mtp->norm = make_norm(model, factory, index, "shared_head.norm");
  if (with_embedding) {
    constexpr int64_t kOutside = -1;
    mtp->own_embedding = std::make_unique<Embedding>();
    mtp->own_embedding->weight = factory.make(kOutside, {ParamRole::kEmbedding});
  }
  return mtp;
}

}  // namespace tessera
