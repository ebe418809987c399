#include <cmath>

#include "tessera/base/error.h"
#include "tessera/models/decoder.h"
#include "tessera/models/weight_factory.h"

namespace tessera {

namespace {

constexpr int64_t kOutside = -1;  // of the layers

std::unique_ptr<Norm> make_norm(const ModelConfig& model, const WeightFactory& factory,
                                int64_t layer, std::string_view suffix) {
  auto norm = std::make_unique<Norm>();
  norm->weight = factory.make_norm(layer, suffix);
  norm->eps = model.rms_norm_eps;
  return norm;
}

std::unique_ptr<Linear> make_linear(const WeightFactory& factory, int64_t layer, ParamRole weight,
                                    ParamRole bias) {
  auto linear = std::make_unique<Linear>();
  linear->weight = factory.make(layer, {weight});
  linear->bias = factory.make(layer, {bias});
  return linear;
}

std::unique_ptr<Projections> make_projections(const WeightFactory& factory, int64_t layer,
                                              const std::vector<ParamRole>& weights,
                                              const std::vector<ParamRole>& biases) {
  auto projections = std::make_unique<Projections>();
  projections->weight = factory.make(layer, weights);
  projections->bias = factory.make(layer, biases);
  projections->part_rows = factory.rows(layer, weights);
  return projections;
}

std::unique_ptr<AttentionBlock> make_attention(const ModelConfig& model,
                                               const WeightFactory& factory, int64_t layer) {
  using enum ParamRole;
  auto attention = std::make_unique<Attention>();
  attention->head_dim = model.head_dim;
  attention->qkv_proj = make_projections(factory, layer, {kAttnQ, kAttnK, kAttnV},
                                         {kAttnQBias, kAttnKBias, kAttnVBias});
  if (model.qk_layernorm) {
    attention->q_norm = make_norm(model, factory, layer, "q_norm.weight");
    attention->k_norm = make_norm(model, factory, layer, "k_norm.weight");
  }
  attention->core = std::make_unique<CoreAttention>();
  attention->core->scale = 1.0 / std::sqrt(static_cast<double>(model.head_dim));
  attention->o_proj = make_linear(factory, layer, kAttnO, kAttnOBias);
  return attention;
}

std::unique_ptr<FeedForward> make_mlp(const WeightFactory& factory, int64_t layer) {
  using enum ParamRole;
  auto mlp = std::make_unique<Mlp>();
  mlp->gate_up_proj =
      make_projections(factory, layer, {kMlpGate, kMlpUp}, {kMlpGateBias, kMlpUpBias});
  mlp->down_proj = make_linear(factory, layer, kMlpDown, kMlpDownBias);
  return mlp;
}

std::unique_ptr<DecoderLayer> make_layer(const ModelConfig& model, const WeightFactory& factory,
                                         int64_t index) {
  auto layer = std::make_unique<DecoderLayer>();
  layer->index = index;
  layer->hidden_dropout = model.hidden_dropout;
  layer->input_norm = make_norm(model, factory, index, "input_layernorm.weight");
  layer->attention = make_attention(model, factory, index);
  layer->post_attention_norm = make_norm(model, factory, index, "post_attention_layernorm.weight");
  layer->mlp = make_mlp(factory, index);
  return layer;
}

}  // namespace

std::unique_ptr<Decoder> build_decoder(const ModelConfig& model, const std::vector<int64_t>& layers,
                                       bool with_embedding, bool with_head) {
  if (model.is_mla() || model.is_moe()) {
    throw ConfigError("model.model_type: '" + model.model_type + "' cannot be trained yet");
  }
  if (model.hidden_act != "silu") {
    throw ConfigError("model.hidden_act: '" + model.hidden_act + "' is not silu");
  }
  const WeightFactory factory(model);
  auto decoder = std::make_unique<Decoder>();
  decoder->rope = make_rope(model, model.head_dim);
  if (with_embedding) {
    decoder->embedding = std::make_unique<Embedding>();
    decoder->embedding->weight = factory.make(kOutside, {ParamRole::kEmbedding});
  }
  for (const int64_t index : layers) {
    decoder->layers.push_back(make_layer(model, factory, index));
  }
  if (with_head) {
    decoder->norm = make_norm(model, factory, kOutside, "model.norm.weight");
    decoder->head = std::make_unique<LossHead>();
    decoder->head->chunks = model.chunk_loss_num;
    decoder->head->ignore_label = model.ignore_token_id;
    if (model.tie_word_embeddings && with_embedding) {
      decoder->head->weight = &decoder->embedding->weight;
    } else {
      decoder->head->own_weight = std::make_unique<Weight>(factory.make(
          kOutside, {model.tie_word_embeddings ? ParamRole::kEmbedding : ParamRole::kHead}));
      decoder->head->weight = decoder->head->own_weight.get();
    }
  }
  return decoder;
}

}  // namespace tessera
