#include "tessera/nn/attention/attention.h"

#include <ATen/ATen.h>

#include "tessera/nn/attention/rotary.h"
#include "tessera/nn/attention/split_heads.h"

namespace tessera {

namespace {

constexpr AttentionInput kInputs[] = {AttentionInput::kQuery, AttentionInput::kKey,
                                      AttentionInput::kValue};

}  // namespace

const at::Tensor& Attention::rope_cos(const LayerContext& context) const {
  return has_window && context.window_rope_cos.defined() ? context.window_rope_cos
                                                         : context.rope_cos;
}

const at::Tensor& Attention::rope_sin(const LayerContext& context) const {
  return has_window && context.window_rope_sin.defined() ? context.window_rope_sin
                                                         : context.rope_sin;
}

Tensors Attention::heads_of_parts(const at::Tensor& x_TH, const LayerContext& context,
                                  AttentionCall* call) {
  Tensors heads(3);
  const auto receive = [&](size_t part, at::Tensor y_TO) {
    const auto normed = [&](const at::Tensor& x) {
      if (part > 1 || !(part == 0 ? q_norm : k_norm)) return x;
      return (part == 0 ? q_norm_call : k_norm_call)({x}, context)[0];
    };
    if (norm_span == QkNormSpan::kAllHeads) y_TO = normed(y_TO);
    at::Tensor y_TND = y_TO.unflatten(1, {-1, head_dim});
    if (norm_span == QkNormSpan::kHead) y_TND = normed(y_TND);
    if (part < 2) y_TND = rotated(y_TND, context);
    if (call) call->offer(kInputs[part], y_TND);
    heads[part] = std::move(y_TND);
  };
  if (qkv_call.wrapper) {
    const auto parts = qkv_call({x_TH}, context)[0].split_with_sizes(qkv_proj->part_rows, 1);
    for (size_t part = 0; part < parts.size(); ++part) receive(part, parts[part]);
  } else {
    qkv_proj->forward(x_TH, context, receive);
  }
  return heads;
}

// Neighbours are taken apart into halves and stay so: q and k alike, so that their products are the
// same.
at::Tensor Attention::rotated(const at::Tensor& x_TND, const LayerContext& context) const {
  const at::Tensor& cos = rope_cos(context);
  at::Tensor x = x_TND;
  if (pairs_neighbours) {
    const int64_t turned = 2 * cos.size(1);
    const at::Tensor halves =
        x.narrow(2, 0, turned).unflatten(-1, {-1, 2}).transpose(-1, -2).flatten(-2);
    x = turned == head_dim ? halves : at::cat({halves, x.narrow(2, turned, head_dim - turned)}, 2);
  }
  return apply_rotary(x, cos, rope_sin(context));
}

Tensors Attention::heads_at_once(const at::Tensor& x_TH, const LayerContext& context,
                                 AttentionCall* call) {
  const auto norm_of = [](const std::unique_ptr<Norm>& norm) {
    return norm ? HeadNorm{norm->scale(), norm->eps} : HeadNorm{};
  };
  const auto heads =
      split_heads(qkv_call({x_TH}, context)[0], qkv_proj->part_rows, head_dim, norm_of(q_norm),
                  norm_of(k_norm), rope_cos(context), rope_sin(context));
  for (size_t part = 0; call && part < heads.size(); ++part) {
    call->offer(kInputs[part], heads[part]);
  }
  return {heads.begin(), heads.end()};
}

at::Tensor Attention::forward(const at::Tensor& x_TH, const LayerContext& context) {
  // A wrapped core is called with all inputs at once; else each is offered as soon as it is ready.
  const auto call = core_call.wrapper ? nullptr : core->begin(context);
  const bool by_parts = qkv_proj->in_turn || q_norm_call.wrapper || k_norm_call.wrapper ||
                        norm_span == QkNormSpan::kAllHeads || pairs_neighbours;
  const Tensors heads = by_parts ? heads_of_parts(x_TH, context, call.get())
                                 : heads_at_once(x_TH, context, call.get());
  const at::Tensor out_TND = call ? call->attend() : core_call(heads, context)[0];
  return o_call({out_TND.flatten(1)}, context)[0];
}

std::vector<Weight*> Attention::weights() { return weights_of(modules()); }

std::vector<ModuleCall*> Attention::modules() {
  std::vector<ModuleCall*> all{&qkv_call};
  if (q_norm) all.push_back(&q_norm_call);
  if (k_norm) all.push_back(&k_norm_call);
  all.push_back(&core_call);
  all.push_back(&o_call);
  return all;
}

}  // namespace tessera
