#include "tessera/nn/attention/local_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

#include "tessera/base/error.h"
#include "tessera/nn/attention/composed_attention.h"
#include "tessera/nn/attention/document_begins.h"
#include "tessera/nn/attention/flash_attention.h"
#include "tessera/nn/scalar_type.h"

// T tokens, N heads, M kv heads, D head size; B samples of L tokens each.

namespace tessera {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// [T, N, D] as [B, N, L, D], and back: views.
at::Tensor rows_of(const at::Tensor& x_TND, int64_t rows) {
  return x_TND.unflatten(0, {rows, -1}).transpose(1, 2);
}
at::Tensor tokens_of(const at::Tensor& x_BNLD) { return x_BNLD.transpose(1, 2).flatten(0, 1); }

struct LocalAttention : torch::autograd::Function<LocalAttention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q_TND, const at::Tensor& k_TMD,
                            const at::Tensor& v_TME, const std::optional<at::Tensor>& sinks_N,
                            const std::optional<at::Tensor>& begins_BL, int64_t rows,
                            const AttentionScores& scores, at::Tensor* largest) {
    FlashPlaces places;
    places.document_begins = begins_BL.value_or(at::Tensor());
    FlashResult result = flash_forward(rows_of(q_TND, rows), rows_of(k_TMD, rows),
                                       rows_of(v_TME, rows), scores, places, largest != nullptr);
    if (largest) *largest = std::move(result.largest);
    const at::Tensor out_TNE = tokens_of(result.out);
    ctx->save_for_backward({q_TND, k_TMD, v_TME, out_TNE, result.lse,
                            sinks_N.value_or(at::Tensor()), places.document_begins});
    ctx->saved_data["rows"] = rows;
    ctx->saved_data["scale"] = scores.scale;
    ctx->saved_data["soft_cap"] = scores.soft_cap;
    ctx->saved_data["window"] = scores.window;
    return out_TNE;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const int64_t rows = ctx->saved_data["rows"].toInt();
    const AttentionScores scores{ctx->saved_data["scale"].toDouble(),
                                 ctx->saved_data["soft_cap"].toDouble(),
                                 ctx->saved_data["window"].toInt(), saved[5]};
    FlashPlaces places;
    places.document_begins = saved[6];
    const auto part = [&](const at::Tensor& x) { return rows_of(x, rows); };
    variable_list result(8);
    for (size_t i = 0; i < 3; ++i) {
      const at::Tensor& x = saved[i];
      result[i] = at::empty(x.sizes(), x.options().dtype(accumulation_type(x.scalar_type())));
    }
    const at::Tensor dsinks = flash_backward(
        part(grads[0]), part(saved[0]), part(saved[1]), part(saved[2]), part(saved[3]), saved[4],
        scores, places, part(result[0]), part(result[1]), part(result[2]),
        /*add=*/false);
    for (size_t i = 0; i < 3; ++i) result[i] = result[i].to(saved[i].scalar_type());
    if (dsinks.defined()) result[3] = dsinks.to(saved[5].scalar_type());
    return result;
  }
};

}  // namespace

at::Tensor local_attention(const at::Tensor& q_TND, const at::Tensor& k_TMD,
                           const at::Tensor& v_TME, const LayerContext& context,
                           const AttentionScores& scores, at::Tensor* largest) {
  const int64_t rows = context.rows;
  TESSERA_CHECK_EQ(q_TND.size(0), rows * context.seq_length, "local attention needs whole samples");
  if (q_TND.size(0) == 0) {
    if (largest)
      *largest = at::full({rows, q_TND.size(1)}, -std::numeric_limits<double>::infinity(),
                          q_TND.options());
    return q_TND.sum() * 0 + k_TMD.sum() * 0 + v_TME.sum() * 0 +
           q_TND.new_empty({0, q_TND.size(1), v_TME.size(2)});
  }
  if (q_TND.device().is_cpu()) {
    // An undefined tensor is no argument of a function; an absent one is.
    const auto given = [](const at::Tensor& x) {
      return x.defined() ? std::optional<at::Tensor>(x) : std::nullopt;
    };
    return LocalAttention::apply(q_TND, k_TMD, v_TME, given(scores.sinks),
                                 given(document_begins(context)), rows, scores, largest);
  }
  return tokens_of(composed_attention(rows_of(q_TND, rows), rows_of(k_TMD, rows),
                                      rows_of(v_TME, rows), scores, context.document_ends,
                                      largest));
}

}  // namespace tessera
