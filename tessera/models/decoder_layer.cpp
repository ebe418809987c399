#include "tessera/models/decoder_layer.h"

#include <ATen/ATen.h>

#include "tessera/nn/dropout.h"

namespace tessera {

namespace {

// The two places of a layer where something is dropped, numbered through the model.
int64_t attention_site(int64_t layer) { return 2 * layer; }
int64_t mlp_site(int64_t layer) { return 2 * layer + 1; }

}  // namespace

NormSeam::NormSeam(NormPlace place) : call(norm_call(norm_module(place), norm)) {}

at::Tensor NormSeam::operator()(const at::Tensor& x_TH, const LayerContext& context) const {
  return norm ? call({x_TH}, context)[0] : x_TH;
}

DecoderLayer::DecoderLayer() {
  attention_call.module = LayerModule::kAttention;
  attention_call.weights = [this] { return attention->weights(); };
  attention_call.body = [this](const Tensors& x, const LayerContext& context) {
    return Tensors{attention->forward(x[0], context)};
  };
  mlp_call.module = LayerModule::kMlp;
  mlp_call.weights = [this] { return mlp->weights(); };
  mlp_call.body = [this](const Tensors& x, const LayerContext& context) {
    FeedForward::Output out = mlp->forward(x[0], context);
    Tensors values{std::move(out.y_TH)};
    values.insert(values.end(), out.losses.begin(), out.losses.end());
    return values;
  };
}

at::Tensor DecoderLayer::attend(const at::Tensor& x_TH, const LayerContext& context) {
  return after_attention(attention_call({before_attention(x_TH, context)}, context)[0], context);
}

Tensors DecoderLayer::feed(const at::Tensor& x_TH, const LayerContext& context) {
  Tensors out = mlp_call({before_mlp(x_TH, context)}, context);
  out[0] = after_mlp(out[0], context);
  return out;
}

template <typename Branch>
Tensors DecoderLayer::with_residual(const at::Tensor& x, const HyperConnection* streams,
                                    int64_t site, const LayerContext& context,
                                    const Branch& branch) const {
  if (!streams) {
    Tensors out = branch(x);
    out[0] = x + dropout(out[0], hidden_dropout, site, context);
    return out;
  }
  const HyperConnection::Site opened = streams->open(x);
  Tensors out = branch(opened.collapsed_TH);
  out[0] = streams->close(x, dropout(out[0], hidden_dropout, site, context), opened);
  return out;
}

Tensors DecoderLayer::run(const at::Tensor& x, const LayerContext& context) {
  const at::Tensor middle =
      with_residual(x, attention_streams.get(), attention_site(index), context,
                    [&](const at::Tensor& x_TH) { return Tensors{attend(x_TH, context)}; })[0];
  return with_residual(middle, mlp_streams.get(), mlp_site(index), context,
                       [&](const at::Tensor& x_TH) { return feed(x_TH, context); });
}

std::vector<Weight*> DecoderLayer::weights() {
  std::vector<Weight*> all;
  const auto add_norm = [&all](NormSeam& seam) {
    if (seam.norm) all.push_back(&seam.norm->weight);
  };
  add_norm(before_attention);
  for (Weight* weight : attention->weights()) all.push_back(weight);
  add_norm(after_attention);
  add_norm(before_mlp);
  for (Weight* weight : mlp->weights()) all.push_back(weight);
  add_norm(after_mlp);
  for (HyperConnection* streams : {attention_streams.get(), mlp_streams.get()}) {
    if (!streams) continue;
    for (Weight* weight : streams->weights()) all.push_back(weight);
  }
  return all;
}

std::vector<ModuleCall*> DecoderLayer::modules() {
  std::vector<ModuleCall*> all;
  const auto add_norm = [&all](NormSeam& seam) {
    if (seam.norm) all.push_back(&seam.call);
  };
  add_norm(before_attention);
  all.push_back(&attention_call);
  for (ModuleCall* call : attention->modules()) all.push_back(call);
  add_norm(after_attention);
  add_norm(before_mlp);
  all.push_back(&mlp_call);
  for (ModuleCall* call : mlp->modules()) all.push_back(call);
  add_norm(after_mlp);
  return all;
}

ModuleCall& DecoderLayer::first_of_attention() {
  return before_attention.norm ? before_attention.call : attention_call;
}

ModuleCall& DecoderLayer::first_of_mlp() { return before_mlp.norm ? before_mlp.call : mlp_call; }

}  // namespace tessera
