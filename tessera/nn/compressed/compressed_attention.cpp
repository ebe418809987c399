#include "tessera/nn/compressed/compressed_attention.h"

#include <ATen/ATen.h>

#include <cmath>
#include <utility>

#include "tessera/nn/attention/document_begins.h"
#include "tessera/nn/compressed/shared_key_attention.h"
#include "tessera/nn/compressed/tail_rotary.h"
#include "tessera/nn/kernels/rms_norm.h"
#include "tessera/nn/scalar_type.h"

// T tokens, N heads, D as in the header, L size of the latent query.

namespace tessera {

CompressedAttention::CompressedAttention() {
  core_call.module = LayerModule::kCore;
  core_call.weights = [this] {
    std::vector<Weight*> all{&sinks};
    if (compressor) {
      for (Weight* weight : compressor->weights()) all.push_back(weight);
    }
    if (indexer) {
      for (Weight* weight : indexer->weights()) all.push_back(weight);
    }
    return all;
  };
  core_call.body = [this](const Tensors& inputs, const LayerContext& context) {
    return Tensors{attend(inputs, context)};
  };
}

at::Tensor CompressedAttention::chosen(const at::Tensor& x_TH, const at::Tensor& latent_TL,
                                       const LayerContext& context) const {
  if (!indexer) return {};
  const at::NoGradGuard no_grad;  // the choice has no gradient
  const IndexScores scores = indexer->scores(x_TH, latent_TL, context);
  return choose_entries(scores, indexer->top_k, compressor->ratio, document_begins(context));
}

at::Tensor CompressedAttention::attend(const Tensors& inputs, const LayerContext& context) const {
  SharedKeys over;
  over.rows = context.rows;
  over.window = window;
  over.scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  over.keys_TD = inputs[3];
  over.sinks_N = sinks.value;
  over.document_begins = document_begins(context);
  if (compressor) {
    over.ratio = compressor->ratio;
    over.entries_BED = compressor->forward(inputs[0], context);
    over.chosen_TK = chosen(inputs[0], inputs[1], context);
  }
  return shared_key_attention(inputs[2], over);
}

at::Tensor CompressedAttention::grouped_out(const at::Tensor& out_TND) const {
  const at::Tensor by_group = out_TND.flatten(1).unflatten(1, {groups, -1}).transpose(0, 1);
  const at::Tensor weight_GIR = group_out.value.unflatten(0, {groups, -1}).transpose(1, 2);
  return at::bmm(by_group, weight_GIR).transpose(0, 1).flatten(1);
}

at::Tensor CompressedAttention::forward(const at::Tensor& x_TH, const LayerContext& context) {
  const at::Tensor& cos = window_rope ? context.window_rope_cos : context.rope_cos;
  const at::Tensor& sin = window_rope ? context.window_rope_sin : context.rope_sin;
  const auto down = down_call({x_TH}, context)[0].split_with_sizes(down_proj->part_rows, 1);
  const at::Tensor latent_TL = q_norm_call({down[0]}, context)[0];
  const at::Tensor key_TD = k_norm_call({down[1]}, context)[0];
  const at::Tensor q_TND = q_up_call({latent_TL}, context)[0].unflatten(1, {-1, head_dim});
  const at::Tensor ones =
      at::ones({head_dim}, q_TND.options().dtype(accumulation_type(q_TND.scalar_type())));
  const at::Tensor query = rotate_tail(rms_norm(q_TND, ones, norm_eps), cos, sin);
  const at::Tensor key = rotate_tail(key_TD.unsqueeze(1), cos, sin).squeeze(1);
  const at::Tensor out_TND = core_call({x_TH, latent_TL, query, key}, context)[0];
  return o_call({grouped_out(rotate_tail(out_TND, cos, sin, -1))}, context)[0];
}

std::vector<Weight*> CompressedAttention::weights() {
  std::vector<Weight*> all = weights_of(modules());
  all.push_back(&group_out);
  return all;
}

std::vector<ModuleCall*> CompressedAttention::modules() {
  return {&down_call, &q_norm_call, &k_norm_call, &q_up_call, &core_call, &o_call};
}

}  // namespace tessera
