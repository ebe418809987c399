#include "tessera/nn/attention/flash_attention.h"

#include <ATen/ATen.h>

#include <vector>

#include "tessera/base/box.h"
#include "tessera/base/error.h"
#include "tessera/layout/size_choices.h"
#include "tessera/nn/attention/widened_flash.h"
#include "tessera/nn/kernels/products.h"
#include "tessera/nn/scalar_type.h"

namespace tessera {
namespace {

struct Rectangle {
  Range queries;
  Range keys;
};

// A causal square as small ones on its diagonal and whole rectangles below it.
struct CausalCut {
  std::vector<Range> squares;
  std::vector<Rectangle> rectangles;

  explicit CausalCut(int64_t length) { cut({0, length}); }

 private:
  void cut(const Range& whole) {
    if (whole.size() <= kLongestSquare) {
      squares.push_back(whole);
      return;
    }
    const int64_t middle = whole.begin + whole.size() / 2;
    cut({whole.begin, middle});
    cut({middle, whole.end});
    rectangles.push_back({{middle, whole.end}, {whole.begin, middle}});
  }
};

at::Tensor part(const at::Tensor& x, const Range& places) {
  return x.narrow(2, places.begin, places.size());
}

FlashResult forward_call(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal,
                         double scale) {
  auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
      q, k, v, /*dropout_p=*/0.0, causal, /*attn_mask=*/{}, scale);
  return {std::move(out), std::move(lse)};
}

FlashGrads backward_call(const at::Tensor& grad_out, const at::Tensor& q, const at::Tensor& k,
                         const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse,
                         bool causal, double scale) {
  if (is_widened(q)) return widened_flash_backward(grad_out, q, k, v, out, lse, causal, scale);
  auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      grad_out, q, k, v, out, lse, /*dropout_p=*/0.0, causal, /*attn_mask=*/{}, scale);
  return {std::move(dq), std::move(dk), std::move(dv)};
}

at::Tensor empty_like_heads(const at::Tensor& x_BNLD, at::ScalarType type) {
  return at::empty({x_BNLD.size(0), x_BNLD.size(2), x_BNLD.size(1), x_BNLD.size(3)},
                   x_BNLD.options().dtype(type))
      .transpose(1, 2);
}

}  // namespace

FlashResult flash_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          bool causal, double scale) {
  const int64_t length = q.size(2);
  if (!causal || length <= kLongestSquare) return forward_call(q, k, v, causal, scale);
  TESSERA_CHECK_EQ(length, k.size(2), "queries and keys of a causal square");
  const at::ScalarType wide = accumulation_type(q.scalar_type());
  FlashResult result{
      empty_like_heads(q, wide),
      at::empty({q.size(0), length, q.size(1)}, q.options().dtype(wide)).transpose(1, 2)};
  const CausalCut cut(length);
  for (const Range& square : cut.squares) {
    const FlashResult own =
        forward_call(part(q, square), part(k, square), part(v, square), true, scale);
    part(result.out, square).copy_(own.out);
    part(result.lse, square).copy_(own.lse);
  }
  for (const auto& [queries, keys] : cut.rectangles) {
    at::Tensor out = part(result.out, queries), lse = part(result.lse, queries);
    flash_merge(out, lse,
                forward_call(part(q, queries), part(k, keys), part(v, keys), false, scale));
  }
  result.out = result.out.to(q.scalar_type());
  return result;
}

FlashGrads flash_backward(const at::Tensor& grad_out, const at::Tensor& q, const at::Tensor& k,
                          const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse,
                          bool causal, double scale) {
  const int64_t length = q.size(2);
  if (!causal || length <= kLongestSquare) {
    return backward_call(grad_out, q, k, v, out, lse, causal, scale);
  }
  const at::ScalarType wide = accumulation_type(q.scalar_type());
  FlashGrads grads{empty_like_heads(q, wide), empty_like_heads(k, wide), empty_like_heads(v, wide)};
  const auto call = [&](const Range& queries, const Range& keys, bool is_causal) {
    return backward_call(part(grad_out, queries), part(q, queries), part(k, keys), part(v, keys),
                         part(out, queries), part(lse, queries), is_causal, scale);
  };
  const CausalCut cut(length);
  for (const Range& square : cut.squares) {
    const FlashGrads own = call(square, square, true);
    part(grads.q, square).copy_(own.q);
    part(grads.k, square).copy_(own.k);
    part(grads.v, square).copy_(own.v);
  }
  for (const auto& [queries, keys] : cut.rectangles) {
    const FlashGrads more = call(queries, keys, false);
    part(grads.q, queries).add_(more.q);
    part(grads.k, keys).add_(more.k);
    part(grads.v, keys).add_(more.v);
  }
  return grads;
}

void flash_merge(at::Tensor& out, at::Tensor& lse, const FlashResult& more) {
  const at::Tensor merged = at::logaddexp(lse, more.lse);
  out.lerp_(more.out.to(out.scalar_type()), (more.lse - merged).exp_().unsqueeze(-1));
  lse.copy_(merged);
}

}  // namespace tessera
