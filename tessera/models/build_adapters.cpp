#include "tessera/models/build_adapters.h"

#include <functional>

#include "tessera/layout/dtypes.h"
#include "tessera/nn/attention/attention.h"
#include "tessera/nn/attention/mla.h"
#include "tessera/nn/experts/moe.h"
#include "tessera/nn/scalar_type.h"

namespace tessera {

namespace {

// Sites of dropout of their own, beside those of the residual stream.
constexpr int64_t kFirstSite = int64_t{1} << 32;

class AdapterBuilder {
 public:
  AdapterBuilder(const ModelConfig& model, const WeightFactory& factory)
      : model_(model), factory_(factory) {}

  void of_layer(DecoderLayer& layer) {
    layer_ = layer.index;
    if (auto* heads = dynamic_cast<Attention*>(layer.attention.get())) {
      add(*heads->qkv_proj);
      add(*heads->o_proj);
    } else if (auto* latent = dynamic_cast<LatentAttention*>(layer.attention.get())) {
      add(*latent->down_proj);
      add(*latent->q_up);
      add(*latent->kv_up);
      add(*latent->o_proj);
    }
    if (auto* mlp = dynamic_cast<Mlp*>(layer.mlp.get())) of_mlp(*mlp);
    if (auto* moe = dynamic_cast<MixtureOfExperts*>(layer.mlp.get())) {
      add(moe->experts->gate_up, moe->experts->gate_up_adapters);
      add(moe->experts->down, moe->experts->down_adapters);
      if (moe->shared) of_mlp(*moe->shared);
      if (moe->shared_gate) add(*moe->shared_gate);
    }
  }

  void of_head(LossHead& head) {
    layer_ = -1;
    if (head.own_weight) add(*head.own_weight, head.adapters);
  }

  void of_prediction(MtpLayer& mtp) {
    layer_ = mtp.layer->index;
    add(*mtp.projection);
  }

 private:
  void of_mlp(Mlp& mlp) {
    add(*mlp.gate_up_proj);
    add(*mlp.down_proj);
  }

  template <typename Product>
  void add(Product& product) {
    add(product.weight, product.adapters);
  }

  // The site is that of the product's first matrix, whatever layers are on this rank.
  void add(const Weight& weight, Adapters& adapters) {
    const LoraConfig& lora = model_.lora;
    adapters.scale = static_cast<double>(lora.lora_alpha) / static_cast<double>(lora.lora_rank);
    adapters.dropout = lora.lora_dropout;
    constexpr int64_t kRoles = 256;
    adapters.site = kFirstSite + layer_ * kRoles + static_cast<int64_t>(weight.parts.front().role);
    for (size_t i = 0; i < weight.parts.size(); ++i) {
      auto parts = factory_.adapter(layer_, weight.parts[i]);
      if (!parts) continue;
      adapters.parts.push_back(i);
      adapters.a.dtype = weight.dtype;
      adapters.a.parts.push_back(std::move(parts->a));
      Weight& b = adapters.b.emplace_back();
      b.dtype = weight.dtype;
      b.parts.push_back(std::move(parts->b));
    }
  }

  const ModelConfig& model_;
  const WeightFactory& factory_;
  int64_t layer_ = -1;
};

}  // namespace

void add_adapters(Decoder& decoder, const ModelConfig& model, const WeightFactory& factory) {
  AdapterBuilder builder(model, factory);
  for (DecoderLayer* layer : decoder.all_layers()) builder.of_layer(*layer);
  if (decoder.mtp) builder.of_prediction(*decoder.mtp);
  if (decoder.head) builder.of_head(*decoder.head);
}

}  // namespace tessera
