#include "tessera/nn/compressed/shared_key_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/nn/compressed/add_rows.h"
#include "tessera/nn/compressed/entry_sight.h"
#include "tessera/nn/scalar_type.h"

// L queries of a block, W keys of its windows, K entries for each query or for all of the block;
// the rest as in the header. Everything in the type of sums.

namespace tessera {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kQueriesOfABlock = 64;

at::Tensor wide(const at::Tensor& x) { return x.to(accumulation_type(x.scalar_type())); }

// [T, ...] as [rows, s, ...].
at::Tensor by_row(const at::Tensor& x, int64_t rows) { return x.unflatten(0, {rows, -1}); }

// [L, N, D] x [W, D] -> [L, N, W].
at::Tensor over_common(const at::Tensor& q_LND, const at::Tensor& k_WD) {
  return at::mm(q_LND.flatten(0, 1), k_WD.t()).unflatten(0, {q_LND.size(0), -1});
}
// [L, N, W] x [W, D] -> [L, N, D].
at::Tensor sum_common(const at::Tensor& p_LNW, const at::Tensor& k_WD) {
  return at::mm(p_LNW.flatten(0, 1), k_WD).unflatten(0, {p_LNW.size(0), -1});
}
// Gradient of common keys: [L, N, W], [L, N, D] -> [W, D].
at::Tensor to_common(const at::Tensor& p_LNW, const at::Tensor& x_LND) {
  return at::mm(p_LNW.flatten(0, 1).t(), x_LND.flatten(0, 1));
}

// The keys that the queries of a block see, and what of them is hidden from which query.
struct BlockKeys {
  int64_t first = 0;      // place of the first key of the windows
  at::Tensor near_WD;     // keys of the windows
  at::Tensor far;         // entries: [K, D] common to the block, or [L, K, D] chosen; or undefined
  at::Tensor indices_LK;  // of the chosen ones, 0 where there is none
  at::Tensor hidden_LX;   // [L, W + K] bool

  bool chosen() const { return indices_LK.defined(); }
};

BlockKeys keys_of(const QueryBlock& block, const SharedKeys& over, const at::Tensor& keys_BsD,
                  const at::Tensor& entries_BED) {
  BlockKeys keys;
  const at::Device device = keys_BsD.device();
  keys.first = std::max<int64_t>(0, block.first - over.window + 1);
  keys.near_WD = keys_BsD.select(0, block.row).narrow(0, keys.first, block.end - keys.first);
  keys.hidden_LX = outside_window(block, over.window, keys.first, keys.near_WD.size(0), device);
  if (!entries_BED.defined()) return keys;
  const at::Tensor entries_ED = entries_BED.select(0, block.row);
  at::Tensor hidden;
  if (over.chosen_TK.defined()) {
    const at::Tensor chosen_LK =
        by_row(over.chosen_TK, over.rows).select(0, block.row).narrow(0, block.first, block.size());
    hidden = chosen_LK < 0;
    keys.indices_LK = chosen_LK.clamp_min(0);
    keys.far = entries_ED.index_select(0, keys.indices_LK.flatten())
                   .unflatten(0, {block.size(), chosen_LK.size(1)});
  } else {
    const int64_t ready = std::min(block.end / over.ratio, entries_ED.size(0));
    keys.far = entries_ED.narrow(0, 0, ready);
    hidden = hidden_entries(block, over.ratio, ready, device);
  }
  keys.hidden_LX = at::cat({keys.hidden_LX, hidden}, 1);
  return keys;
}

// [L, N, W + K] scaled scores, -infinity where hidden.
at::Tensor scores_of(const at::Tensor& q_LND, const BlockKeys& keys, double scale) {
  at::Tensor scores = over_common(q_LND, keys.near_WD);
  if (keys.far.defined()) {
    const at::Tensor far =
        keys.chosen() ? at::bmm(q_LND, keys.far.transpose(1, 2)) : over_common(q_LND, keys.far);
    scores = at::cat({scores, far}, 2);
  }
  return scores.mul_(scale).masked_fill_(keys.hidden_LX.unsqueeze(1),
                                         -std::numeric_limits<double>::infinity());
}

// Values and gradients of one call, cut by sample.
struct Cut {
  at::Tensor q_BsND, keys_BsD, entries_BED, sinks_N;
  Cut(const at::Tensor& q_TND, const SharedKeys& over)
      : q_BsND(by_row(q_TND, over.rows)),
        keys_BsD(wide(by_row(over.keys_TD, over.rows))),
        sinks_N(wide(over.sinks_N)) {
    if (over.entries_BED.size(1) > 0) entries_BED = wide(over.entries_BED).contiguous();
  }
  int64_t length() const { return q_BsND.size(1); }
};

// [B, s, ...] -> [L, ...] of the block.
at::Tensor of_block(const at::Tensor& x, const QueryBlock& block) {
  return x.select(0, block.row).narrow(0, block.first, block.size());
}

void forward_block(const QueryBlock& block, const SharedKeys& over, const Cut& cut,
                   const at::Tensor& out_BsND, const at::Tensor& lse_BsN) {
  const BlockKeys keys = keys_of(block, over, cut.keys_BsD, cut.entries_BED);
  const at::Tensor q_LND = wide(of_block(cut.q_BsND, block)).contiguous();
  const at::Tensor scores = scores_of(q_LND, keys, over.scale);
  const at::Tensor lse_LN = at::logaddexp(scores.logsumexp(-1), cut.sinks_N.unsqueeze(0));
  const at::Tensor p = (scores - lse_LN.unsqueeze(-1)).exp_();
  const int64_t near = keys.near_WD.size(0);
  at::Tensor out_LND = sum_common(p.narrow(2, 0, near), keys.near_WD);
  if (keys.far.defined()) {
    const at::Tensor far = p.narrow(2, near, p.size(2) - near);
    out_LND += keys.chosen() ? at::bmm(far, keys.far) : sum_common(far, keys.far);
  }
  of_block(out_BsND, block).copy_(out_LND);
  of_block(lse_BsN, block).copy_(lse_LN);
}

struct Gradients {
  at::Tensor q_BsND, keys_BsD, entries_BED, sinks_N;
};

void backward_block(const QueryBlock& block, const SharedKeys& over, const Cut& cut,
                    const at::Tensor& out_BsND, const at::Tensor& lse_BsN,
                    const at::Tensor& dout_BsND, const Gradients& to) {
  const BlockKeys keys = keys_of(block, over, cut.keys_BsD, cut.entries_BED);
  const at::Tensor q_LND = wide(of_block(cut.q_BsND, block)).contiguous();
  const at::Tensor dout_LND = wide(of_block(dout_BsND, block)).contiguous();
  const at::Tensor lse_LN = of_block(lse_BsN, block);
  const at::Tensor delta_LN = (dout_LND * wide(of_block(out_BsND, block))).sum(-1);
  const at::Tensor p = scores_of(q_LND, keys, over.scale).sub_(lse_LN.unsqueeze(-1)).exp_();
  const int64_t near = keys.near_WD.size(0);
  const int64_t far = p.size(2) - near;
  // ds = p (dp - delta) scale, part by part.
  const auto ds_of = [&](const at::Tensor& dp, int64_t begin, int64_t count) {
    return (dp - delta_LN.unsqueeze(-1)).mul_(p.narrow(2, begin, count)).mul_(over.scale);
  };
  const at::Tensor p_near = p.narrow(2, 0, near);
  const at::Tensor ds_near = ds_of(over_common(dout_LND, keys.near_WD), 0, near);
  at::Tensor dq_LND = sum_common(ds_near, keys.near_WD);
  to.keys_BsD.select(0, block.row)
      .narrow(0, keys.first, near)
      .add_(to_common(ds_near, q_LND))
      .add_(to_common(p_near, dout_LND));
  if (keys.chosen()) {
    const at::Tensor p_far = p.narrow(2, near, far);
    const at::Tensor ds_far = ds_of(at::bmm(dout_LND, keys.far.transpose(1, 2)), near, far);
    dq_LND += at::bmm(ds_far, keys.far);
    const at::Tensor dfar_LKD =
        at::bmm(ds_far.transpose(1, 2), q_LND).add_(at::bmm(p_far.transpose(1, 2), dout_LND));
    add_rows(to.entries_BED.select(0, block.row), keys.indices_LK.flatten(),
             dfar_LKD.flatten(0, 1));
  } else if (keys.far.defined()) {
    const at::Tensor p_far = p.narrow(2, near, far);
    const at::Tensor ds_far = ds_of(over_common(dout_LND, keys.far), near, far);
    dq_LND += sum_common(ds_far, keys.far);
    to.entries_BED.select(0, block.row)
        .narrow(0, 0, far)
        .add_(to_common(ds_far, q_LND))
        .add_(to_common(p_far, dout_LND));
  }
  of_block(to.q_BsND, block).copy_(dq_LND);
  to.sinks_N.sub_(((cut.sinks_N.unsqueeze(0) - lse_LN).exp() * delta_LN).sum(0));
}

struct SharedKeyAttention : torch::autograd::Function<SharedKeyAttention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& keys,
                            const at::Tensor& entries, const at::Tensor& sinks,
                            const SharedKeys& plan) {
    SharedKeys over = plan;
    over.keys_TD = keys, over.entries_BED = entries, over.sinks_N = sinks;
    const Cut cut(q, over);
    const at::Tensor out = at::empty(q.sizes(), q.options());
    const at::Tensor lse = at::empty({q.size(0), q.size(1)}, cut.sinks_N.options());
    const at::Tensor out_BsND = by_row(out, over.rows), lse_BsN = by_row(lse, over.rows);
    over_query_blocks(
        over.rows, cut.length(), kQueriesOfABlock, over.document_begins,
        [&](const QueryBlock& block) { forward_block(block, over, cut, out_BsND, lse_BsN); });
    ctx->save_for_backward(
        {q, keys, entries, sinks, out, lse, plan.chosen_TK, plan.document_begins});
    ctx->saved_data["sizes"] = std::vector<int64_t>{plan.rows, plan.window, plan.ratio};
    ctx->saved_data["scale"] = plan.scale;
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto sizes = ctx->saved_data["sizes"].toIntVector();
    const SharedKeys over{sizes[0], sizes[1], sizes[2], ctx->saved_data["scale"].toDouble(),
                          saved[1], saved[2], saved[6], saved[3],
                          saved[7]};
    const Cut cut(saved[0], over);
    const at::Tensor dq = at::empty_like(saved[0], at::MemoryFormat::Contiguous);
    Gradients to{by_row(dq, over.rows),
                 at::zeros_like(cut.keys_BsD, at::MemoryFormat::Contiguous),
                 {},
                 at::zeros_like(cut.sinks_N)};
    if (cut.entries_BED.defined()) to.entries_BED = at::zeros_like(cut.entries_BED);
    const at::Tensor out_BsND = by_row(saved[4], over.rows), lse_BsN = by_row(saved[5], over.rows);
    const at::Tensor dout_BsND = by_row(grads[0], over.rows);
    over_query_blocks(over.rows, cut.length(), kQueriesOfABlock, over.document_begins,
                      [&](const QueryBlock& block) {
                        backward_block(block, over, cut, out_BsND, lse_BsN, dout_BsND, to);
                      });
    const at::Tensor dentries = to.entries_BED.defined()
                                    ? to.entries_BED.to(over.entries_BED.scalar_type())
                                    : at::zeros_like(over.entries_BED);
    return {dq, to.keys_BsD.flatten(0, 1).to(over.keys_TD.scalar_type()), dentries,
            to.sinks_N.to(over.sinks_N.scalar_type()), at::Tensor()};
  }
};

}  // namespace

at::Tensor shared_key_attention(const at::Tensor& q_TND, const SharedKeys& over) {
  TESSERA_CHECK(over.window > 0, "window ", over.window);
  TESSERA_CHECK(!over.entries_BED.defined() || over.ratio > 0, "entries of no tokens");
  // A function of autograd takes no undefined tensors.
  const at::Tensor entries_BED =
      over.entries_BED.defined()
          ? over.entries_BED
          : at::empty({over.rows, 0, over.keys_TD.size(1)}, over.keys_TD.options());
  return SharedKeyAttention::apply(q_TND, over.keys_TD, entries_BED, over.sinks_N, over);
}

}  // namespace tessera
