#include "tessera/models/build_mla.h"

#include "tessera/models/build_parts.h"

namespace tessera {

namespace {

constexpr double kLatentNormEps = 1e-6;  // as published, whatever the model's other norms use

std::unique_ptr<Norm> make_latent_norm(const ModelConfig& model, const WeightFactory& factory,
                                       int64_t layer, NormPlace place) {
  auto norm = make_norm(model, factory, layer, place);
  if (norm) norm->eps = kLatentNormEps;
  return norm;
}

}  // namespace

std::unique_ptr<LatentAttention> build_mla(const ModelConfig& model, const WeightFactory& factory,
                                           int64_t layer) {
  using enum ParamRole;
  auto attention = std::make_unique<LatentAttention>();
  attention->nope_dim = model.qk_nope_head_dim;
  attention->rope_dim = model.qk_rope_head_dim;
  attention->value_dim = model.v_head_dim;
  attention->interleaved = model.rope_interleave;
  if (model.q_lora_rank) {
    attention->down_proj =
        make_projections(factory, layer, {kMlaQA, kMlaKvA}, {kMlaQABias, kMlaKvABias});
  } else {
    attention->down_proj = make_projections(factory, layer, {kMlaKvA}, {kMlaKvABias});
  }
  if (model.q_lora_rank) {
    attention->q_norm = make_latent_norm(model, factory, layer, NormPlace::kQuery);
  }
  attention->kv_norm = make_latent_norm(model, factory, layer, NormPlace::kKey);
  attention->q_up = std::make_unique<Linear>();
  attention->q_up->weight = factory.make(layer, {kMlaQB});
  attention->kv_up = std::make_unique<Linear>();
  attention->kv_up->weight = factory.make(layer, {kMlaKvB});
  attention->core = std::make_unique<CoreAttention>();
  attention->core->scale = attention_scale(model);
  attention->core->layer = layer;
  attention->o_proj = make_linear(factory, layer, kAttnO, kAttnOBias);
  return attention;
}

}  // namespace tessera
