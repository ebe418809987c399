#include "tessera/models/decoder_layer.h"

#include <ATen/ATen.h>

#include <memory>

#include "tessera/nn/dropout.h"

namespace tessera {

namespace {

// The two places of a layer where something is dropped, numbered through the model.
int64_t attention_site(int64_t layer) { return 2 * layer; }
int64_t mlp_site(int64_t layer) { return 2 * layer + 1; }

}  // namespace

DecoderLayer::DecoderLayer() {
  input_norm_call.names = {"input_layernorm"};
  input_norm_call.weights = [this] { return std::vector<Weight*>{&input_norm->weight}; };
  input_norm_call.body = [this](const Tensors& x, const LayerContext&) {
    return Tensors{input_norm->forward(x[0])};
  };
  attention_call.names = {"self_attention", "self_attn"};
  attention_call.weights = [this] { return attention->weights(); };
  attention_call.body = [this](const Tensors& x, const LayerContext& context) {
    return Tensors{attention->forward(x[0], context)};
  };
  post_attention_norm_call.names = {"pre_mlp_layernorm", "post_attention_layernorm"};
  post_attention_norm_call.weights = [this] {
    return std::vector<Weight*>{&post_attention_norm->weight};
  };
  post_attention_norm_call.body = [this](const Tensors& x, const LayerContext&) {
    return Tensors{post_attention_norm->forward(x[0])};
  };
  mlp_call.names = {"mlp"};
  mlp_call.weights = [this] { return mlp->weights(); };
  mlp_call.body = [this](const Tensors& x, const LayerContext& context) {
    Tensors values = x;
    for (const Segment& segment : mlp->segments()) values = segment.run(std::move(values), context);
    return values;
  };
}

std::vector<Segment> DecoderLayer::segments() {
  std::vector<Segment> all;
  all.push_back({"attention", [this](Tensors x, const LayerContext& context) {
                   const Tensors normed = input_norm_call(x, context);
                   const Tensors out = attention_call(normed, context);
                   return Tensors{x[0] +
                                  dropout(out[0], hidden_dropout, attention_site(index), context)};
                 }});

  // Between the pieces of the feed-forward part the residual stream travels as the first tensor.
  std::vector<Segment> pieces;
  if (mlp_call.wrapper) {
    pieces.push_back(
        {"mlp", [this](Tensors x, const LayerContext& context) { return mlp_call(x, context); }});
  } else {
    pieces = mlp->segments();
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    const bool first = i == 0;
    const bool last = i + 1 == pieces.size();
    all.push_back({pieces[i].name, [this, first, last, run = pieces[i].run](
                                       Tensors x, const LayerContext& context) {
                     const at::Tensor residual = x[0];
                     Tensors inner = first ? post_attention_norm_call(x, context)
                                           : Tensors(x.begin() + 1, x.end());
                     x.clear();
                     Tensors out = run(std::move(inner), context);
                     if (last) {
                       out[0] =
                           residual + dropout(out[0], hidden_dropout, mlp_site(index), context);
                       return out;
                     }
                     out.insert(out.begin(), residual);
                     return out;
                   }});
  }
  return all;
}

Tensors DecoderLayer::run(const at::Tensor& x_TH, const LayerContext& context) {
  Tensors values{x_TH};
  for (const Segment& segment : segments()) values = segment.run(std::move(values), context);
  return values;
}

std::vector<Weight*> DecoderLayer::weights() {
  std::vector<Weight*> all{&input_norm->weight};
  for (Weight* weight : attention->weights()) all.push_back(weight);
  all.push_back(&post_attention_norm->weight);
  for (Weight* weight : mlp->weights()) all.push_back(weight);
  return all;
}

std::vector<ModuleCall*> DecoderLayer::modules() {
  std::vector<ModuleCall*> all{&input_norm_call, &attention_call};
  for (ModuleCall* call : attention->modules()) all.push_back(call);
  all.push_back(&post_attention_norm_call);
  all.push_back(&mlp_call);
  for (ModuleCall* call : mlp->modules()) all.push_back(call);
  return all;
}

}  // namespace tessera
