#include <cmath>

#include "tessera/base/error.h"
#include "tessera/models/build_adapters.h"
#include "tessera/models/build_mla.h"
#include "tessera/models/build_moe.h"
#include "tessera/models/build_parts.h"
#include "tessera/models/decoder.h"

namespace tessera {

namespace {

constexpr int64_t kOutside = -1;  // of the layers

std::unique_ptr<Attention> make_heads(const ModelConfig& model, const WeightFactory& factory,
                                      int64_t layer) {
  using enum ParamRole;
  auto attention = std::make_unique<Attention>();
  attention->head_dim = model.head_dim;
  attention->norm_span = model.design().qk_norm_span;
  attention->pairs_neighbours = model.design().rotary_pairs_neighbours;
  attention->has_window = model.window_of(layer) > 0;
  attention->qkv_proj = make_projections(factory, layer, {kAttnQ, kAttnK, kAttnV},
                                         {kAttnQBias, kAttnKBias, kAttnVBias});
  attention->q_norm = make_norm(model, factory, layer, NormPlace::kQuery);
  attention->k_norm = make_norm(model, factory, layer, NormPlace::kKey);
  attention->core = std::make_unique<CoreAttention>();
  attention->core->scale = attention_scale(model);
  attention->core->soft_cap = model.attn_logit_softcapping.value_or(0);
  attention->core->window = model.window_of(layer);
  attention->core->sinks = factory.make(layer, {kAttnSink});
  attention->core->layer = layer;
  attention->o_proj = make_linear(factory, layer, kAttnO, kAttnOBias);
  return attention;
}

std::unique_ptr<AttentionBlock> make_attention(const ModelConfig& model,
                                               const WeightFactory& factory, int64_t layer) {
  switch (model.design().attention) {
    case AttentionKind::kHeads: return make_heads(model, factory, layer);
    case AttentionKind::kLatent: return build_mla(model, factory, layer);
  }
  TESSERA_CHECK(false, "no such kind of attention");
}

std::unique_ptr<FeedForward> make_mlp(const ModelConfig& model, const WeightFactory& factory,
                                      int64_t layer) {
  using enum ParamRole;
  if (model.is_moe_layer(layer)) return build_moe(model, factory, layer);
  auto mlp = std::make_unique<Mlp>();
  mlp->gate_up_proj =
      make_projections(factory, layer, {kMlpGate, kMlpUp}, {kMlpGateBias, kMlpUpBias});
  mlp->down_proj = make_linear(factory, layer, kMlpDown, kMlpDownBias);
  mlp->unit = gated_unit_of(model);
  return mlp;
}

std::unique_ptr<DecoderLayer> make_layer(const ModelConfig& model, const WeightFactory& factory,
                                         int64_t index) {
  auto layer = std::make_unique<DecoderLayer>();
  layer->index = index;
  layer->hidden_dropout = model.hidden_dropout;
  const auto norm_at = [&](NormPlace place) { return make_norm(model, factory, index, place); };
  layer->before_attention.norm = norm_at(NormPlace::kBeforeAttention);
  layer->attention = make_attention(model, factory, index);
  layer->after_attention.norm = norm_at(NormPlace::kAfterAttention);
  layer->before_mlp.norm = norm_at(NormPlace::kBeforeMlp);
  layer->mlp = make_mlp(model, factory, index);
  layer->after_mlp.norm = norm_at(NormPlace::kAfterMlp);
  return layer;
}

}  // namespace

std::unique_ptr<Decoder> build_decoder(const ModelConfig& model, const std::vector<int64_t>& layers,
                                       bool with_embedding, bool with_head) {
  const WeightFactory factory(model);
  auto decoder = std::make_unique<Decoder>();
  decoder->rope = make_rope(model, model.rotary_dim());
  decoder->window_rope = make_window_rope(model, model.rotary_dim());
  if (with_embedding) {
    decoder->embedding = std::make_unique<Embedding>();
    decoder->embedding->weight = factory.make(kOutside, {ParamRole::kEmbedding});
    if (model.design().scaled_embedding) {
      decoder->embedding_scale = std::sqrt(static_cast<double>(model.hidden_size));
    }
  }
  for (const int64_t index : layers) {
    decoder->layers.push_back(make_layer(model, factory, index));
  }
  if (with_head) {
    decoder->norm = make_norm(model, factory, kOutside, "model.norm");
    decoder->head = std::make_unique<LossHead>();
    decoder->head->chunks = model.chunk_loss_num;
    decoder->head->soft_cap = model.final_logit_softcapping.value_or(0);
    if (model.num_nextn_predict_layers > 0) {
      decoder->mtp = build_mtp(model, factory, make_layer(model, factory, model.num_hidden_layers),
                               !with_embedding);
    }
    if (model.tie_word_embeddings && with_embedding) {
      decoder->head->weight = &decoder->embedding->weight;
    } else if (model.tie_word_embeddings && decoder->mtp) {
      decoder->head->weight = &decoder->mtp->own_embedding->weight;
    } else {
      decoder->head->own_weight = std::make_unique<Weight>(factory.make(
          kOutside, {model.tie_word_embeddings ? ParamRole::kEmbedding : ParamRole::kHead}));
      decoder->head->weight = decoder->head->own_weight.get();
    }
  }
  if (model.lora.is_given()) add_adapters(*decoder, model, factory);
  return decoder;
}

}  // namespace tessera
