#include "tessera/nn/attention/mla.h"

#include <ATen/ATen.h>

#include "tessera/nn/attention/rotary.h"

// T tokens, N heads, dn, dr, dv: see the header.

namespace tessera {

at::Tensor LatentAttention::rotated(const at::Tensor& x_TNR, const LayerContext& context) const {
  // Neighbours are taken apart into halves and stay so: q and k alike, so that products are the
  // same.
  const at::Tensor halves =
      interleaved ? x_TNR.unflatten(-1, {rope_dim / 2, 2}).transpose(-1, -2).flatten(-2) : x_TNR;
  return apply_rotary(halves, context.rope_cos, context.rope_sin);
}

at::Tensor LatentAttention::forward(const at::Tensor& x_TH, const LayerContext& context) {
  // The small latent vectors are made and normalised where the tokens are, then brought together.
  const auto latent = down_call({x_TH}, context)[0].split_with_sizes(down_proj->part_rows, 1);
  const int64_t kv_rank = latent.back().size(1) - rope_dim;
  at::Tensor q_source = low_rank_queries() ? latent[0] : x_TH;
  if (q_norm) q_source = q_norm_call({q_source}, context)[0];
  at::Tensor kv_source = latent.back().narrow(1, 0, kv_rank);
  if (kv_norm) kv_source = kv_norm_call({kv_source}, context)[0];
  const auto all =
      gather->forward(at::cat({q_source, kv_source, latent.back().narrow(1, kv_rank, rope_dim)}, 1))
          .split_with_sizes({q_source.size(1), kv_rank, rope_dim}, 1);

  const at::Tensor q_TND = q_up_call({all[0]}, context)[0].unflatten(1, {-1, nope_dim + rope_dim});
  const int64_t heads = q_TND.size(1);
  const at::Tensor query = at::cat(
      {q_TND.narrow(2, 0, nope_dim), rotated(q_TND.narrow(2, nope_dim, rope_dim), context)}, 2);
  // A wrapped core is called with all inputs at once; else each is offered as soon as it is ready.
  const auto call = core_call.wrapper ? nullptr : core->begin(context);
  if (call) call->offer(AttentionInput::kQuery, query);

  const at::Tensor kv_TND =
      kv_up_call({all[1]}, context)[0].unflatten(1, {heads, nope_dim + value_dim});
  const at::Tensor shared_key = rotated(all[2].unsqueeze(1), context).expand({-1, heads, -1});
  const at::Tensor key = at::cat({kv_TND.narrow(2, 0, nope_dim), shared_key}, 2);
  const at::Tensor value = kv_TND.narrow(2, nope_dim, value_dim);
  at::Tensor out_TND;
  if (call) {
    call->offer(AttentionInput::kKey, key);
    call->offer(AttentionInput::kValue, value);
    out_TND = call->attend();
  } else {
    out_TND = core_call({query, key, value}, context)[0];
  }
  return o_call({out_TND.flatten(1)}, context)[0];
}

std::vector<Weight*> LatentAttention::weights() { return weights_of(modules()); }

std::vector<ModuleCall*> LatentAttention::modules() {
  std::vector<ModuleCall*> all{&down_call};
  if (q_norm) all.push_back(&q_norm_call);
  if (kv_norm) all.push_back(&kv_norm_call);
  for (ModuleCall* call : {&q_up_call, &kv_up_call, &core_call, &o_call}) all.push_back(call);
  return all;
}

}  // namespace tessera
