#include "tessera/nn/attention/local_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <numeric>

#include "tessera/base/error.h"
#include "tessera/nn/attention/flash_attention.h"
#include "tessera/nn/scalar_type.h"

// T tokens, N heads, M kv heads, D head size; B documents of L tokens each in a group.

namespace tessera {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool covers_all_in_order(const std::vector<DocumentGroup>& groups, int64_t tokens) {
  if (groups.size() != 1) return false;
  const DocumentGroup& group = groups.front();
  if (static_cast<int64_t>(group.starts.size()) * group.length != tokens) return false;
  for (size_t i = 0; i < group.starts.size(); ++i) {
    if (group.starts[i] != static_cast<int64_t>(i) * group.length) return false;
  }
  return true;
}

// [B * L] indices of the group's tokens.
at::Tensor token_indices(const DocumentGroup& group) {
  const auto documents = static_cast<int64_t>(group.starts.size());
  at::Tensor indices = at::empty({documents, group.length}, at::kLong);
  int64_t* out = indices.mutable_data_ptr<int64_t>();
  for (const int64_t start : group.starts) {
    std::iota(out, out + group.length, start);
    out += group.length;
  }
  return indices.flatten();
}

// Tokens of the group out of x [T, N, D] as the kernels want them, [B, N, L, D].
at::Tensor take(const at::Tensor& x_TND, const DocumentGroup& group, const at::Tensor& indices) {
  const at::Tensor tokens = group.starts.size() == 1
                                ? x_TND.narrow(0, group.starts[0], group.length)
                                : x_TND.index_select(0, indices);
  return tokens.unflatten(0, {-1, group.length}).transpose(1, 2);
}

// The inverse: writes [B, N, L, D] to the group's places of x [T, N, D].
void put(at::Tensor& x_TND, const DocumentGroup& group, const at::Tensor& indices,
         const at::Tensor& values_BNLD) {
  const at::Tensor tokens = values_BNLD.transpose(1, 2).flatten(0, 1);
  if (group.starts.size() == 1) {
    x_TND.narrow(0, group.starts[0], group.length).copy_(tokens);
  } else {
    x_TND.index_copy_(0, indices, tokens);
  }
}

at::Tensor indices_if_many(const DocumentGroup& group) {
  return group.starts.size() == 1 ? at::Tensor() : token_indices(group);
}

// [T, N, D] as [B, N, L, D] of the group that covers all tokens in order, and back: views.
at::Tensor rows_of(const at::Tensor& x_TND, int64_t length) {
  return x_TND.unflatten(0, {-1, length}).transpose(1, 2);
}
at::Tensor tokens_of(const at::Tensor& x_BNLD) { return x_BNLD.transpose(1, 2).flatten(0, 1); }

// One pass over the documents per group of equally long ones, one node in the graph.
struct PackedAttention : torch::autograd::Function<PackedAttention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q_TND, const at::Tensor& k_TMD,
                            const at::Tensor& v_TMD, const std::vector<DocumentGroup>& groups,
                            double scale) {
    at::Tensor out_TND, lse_TN1;
    if (covers_all_in_order(groups, q_TND.size(0))) {
      const int64_t length = groups[0].length;
      const FlashResult all = flash_forward(rows_of(q_TND, length), rows_of(k_TMD, length),
                                            rows_of(v_TMD, length), /*causal=*/true, scale);
      out_TND = tokens_of(all.out);
      lse_TN1 = tokens_of(all.lse.unsqueeze(-1));
    } else {
      out_TND = at::empty(q_TND.sizes(), q_TND.options());
      lse_TN1 = at::empty({q_TND.size(0), q_TND.size(1), 1},
                          q_TND.options().dtype(accumulation_type(q_TND.scalar_type())));
      for (const DocumentGroup& group : groups) {
        const at::Tensor indices = indices_if_many(group);
        const FlashResult some =
            flash_forward(take(q_TND, group, indices), take(k_TMD, group, indices),
                          take(v_TMD, group, indices), /*causal=*/true, scale);
        put(out_TND, group, indices, some.out);
        put(lse_TN1, group, indices, some.lse.unsqueeze(-1));
      }
    }
    ctx->save_for_backward({q_TND, k_TMD, v_TMD, out_TND, lse_TN1});
    ctx->saved_data["scale"] = scale;
    std::vector<int64_t> flat;  // length, count, starts...
    for (const DocumentGroup& group : groups) {
      flat.push_back(group.length);
      flat.push_back(static_cast<int64_t>(group.starts.size()));
      flat.insert(flat.end(), group.starts.begin(), group.starts.end());
    }
    ctx->saved_data["groups"] = flat;
    return out_TND;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const double scale = ctx->saved_data["scale"].toDouble();
    const std::vector<DocumentGroup> groups = groups_of(ctx->saved_data["groups"].toIntVector());
    const at::Tensor grad_out_TND = grads[0].contiguous();
    variable_list result(5);
    if (covers_all_in_order(groups, grad_out_TND.size(0))) {
      const auto rows = [&](const at::Tensor& x) { return rows_of(x, groups[0].length); };
      const FlashGrads all =
          flash_backward(rows(grad_out_TND), rows(saved[0]), rows(saved[1]), rows(saved[2]),
                         rows(saved[3]), rows(saved[4]).squeeze(-1), /*causal=*/true, scale);
      const std::array<const at::Tensor*, 3> of{&all.q, &all.k, &all.v};
      for (size_t i = 0; i < 3; ++i) result[i] = tokens_of(of[i]->to(saved[i].scalar_type()));
      return result;
    }
    for (size_t i = 0; i < 3; ++i) result[i] = at::empty(saved[i].sizes(), saved[i].options());
    for (const DocumentGroup& group : groups) {
      const at::Tensor indices = indices_if_many(group);
      const auto part = [&](const at::Tensor& x) { return take(x, group, indices); };
      const FlashGrads some =
          flash_backward(part(grad_out_TND), part(saved[0]), part(saved[1]), part(saved[2]),
                         part(saved[3]), part(saved[4]).squeeze(-1), /*causal=*/true, scale);
      const std::array<const at::Tensor*, 3> of{&some.q, &some.k, &some.v};
      for (size_t i = 0; i < 3; ++i) {
        put(result[i], group, indices, of[i]->to(saved[i].scalar_type()));
      }
    }
    return result;
  }

 private:
  static std::vector<DocumentGroup> groups_of(const std::vector<int64_t>& flat) {
    std::vector<DocumentGroup> groups;
    for (size_t at = 0; at < flat.size();) {
      const auto starts = flat.begin() + static_cast<std::ptrdiff_t>(at + 2);
      const int64_t count = flat[at + 1];
      groups.push_back({flat[at], {starts, starts + count}});
      at += 2 + static_cast<size_t>(count);
    }
    return groups;
  }
};

// One kernel call on [B, N, L, D] for other devices; differentiable.
at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            double scale) {
  return at::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{}, /*dropout_p=*/0.0,
                                          /*is_causal=*/true, scale,
                                          /*enable_gqa=*/q.size(1) != k.size(1));
}

// The same for other devices, out of differentiable pieces.
at::Tensor packed_attention_by_pieces(const at::Tensor& q_TND, const at::Tensor& k_TMD,
                                      const at::Tensor& v_TMD,
                                      const std::vector<DocumentGroup>& groups, double scale) {
  std::vector<at::Tensor> outputs;
  std::vector<at::Tensor> places;
  for (const DocumentGroup& group : groups) {
    places.push_back(token_indices(group).to(q_TND.device()));
    outputs.push_back(causal_attention(take(q_TND, group, places.back()),
                                       take(k_TMD, group, places.back()),
                                       take(v_TMD, group, places.back()), scale)
                          .transpose(1, 2)
                          .flatten(0, 1));
  }
  return at::cat(outputs).index_select(0, at::cat(places).argsort());
}

}  // namespace

at::Tensor local_attention(const at::Tensor& q_TND, const at::Tensor& k_TMD,
                           const at::Tensor& v_TME, const std::vector<DocumentGroup>& groups,
                           double scale) {
  const int64_t tokens = q_TND.size(0);
  const int64_t value_size = v_TME.size(2);
  if (tokens == 0) {  // the kernel does not survive it
    return q_TND.sum() * 0 + k_TMD.sum() * 0 + v_TME.sum() * 0 +
           q_TND.new_empty({0, q_TND.size(1), value_size});
  }
  // The kernel takes one head size: the smaller of the two is padded with zeros, which change
  // neither scores nor the leading columns of the result.
  const int64_t size = std::max(q_TND.size(2), value_size);
  const auto padded = [size](const at::Tensor& x) {
    return x.size(2) == size ? x : at::constant_pad_nd(x, {0, size - x.size(2)});
  };
  const at::Tensor q = padded(q_TND);
  const at::Tensor k = padded(k_TMD);
  const at::Tensor v = padded(v_TME);

  at::Tensor out_TND;
  if (q.device().is_cpu()) {
    out_TND = PackedAttention::apply(q, k, v, groups, scale);
  } else if (covers_all_in_order(groups, tokens)) {
    const int64_t length = groups[0].length;
    out_TND = tokens_of(
        causal_attention(rows_of(q, length), rows_of(k, length), rows_of(v, length), scale));
  } else {
    out_TND = packed_attention_by_pieces(q, k, v, groups, scale);
  }
  return size == value_size ? out_TND : out_TND.narrow(2, 0, value_size);
}

}  // namespace tessera
