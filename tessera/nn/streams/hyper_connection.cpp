#include "tessera/nn/streams/hyper_connection.h"

#include <ATen/ATen.h>

#include "tessera/base/error.h"
#include "tessera/nn/scalar_type.h"
#include "tessera/nn/streams/sinkhorn.h"

namespace tessera {

namespace {

at::Tensor wide(const at::Tensor& x) { return x.to(accumulation_type(x.scalar_type())); }

// fn x / sqrt(mean(x^2) + eps): the row's number is taken out of the product, so that the normed
// streams are not kept.
at::Tensor mapped(const at::Tensor& x_TS, const at::Tensor& fn, double norm_eps) {
  const at::Tensor x = wide(x_TS);
  const at::Tensor inverse = x.square().mean(-1, /*keepdim=*/true).add(norm_eps).rsqrt();
  return at::linear(x, fn.to(x.scalar_type())) * inverse;
}

// sum over i of weight_i x_i, in the type of x.
at::Tensor weighted(const at::Tensor& x_TS, const at::Tensor& weight_TN) {
  const at::Tensor x_TNH = wide(x_TS).unflatten(1, {weight_TN.size(1), -1});
  return at::bmm(weight_TN.unsqueeze(1), x_TNH).squeeze(1).to(x_TS.scalar_type());
}

}  // namespace

HyperConnection::Site HyperConnection::open(const at::Tensor& x_TS) const {
  const int64_t n = streams;
  TESSERA_CHECK_EQ(fn.value.size(0), (2 + n) * n, "rows of a hyper-connection");
  const at::Tensor z = mapped(x_TS, fn.value, norm_eps);
  const auto parts = z.split_with_sizes({n, n, n * n}, 1);
  const auto bases = base.value.to(z.scalar_type()).split_with_sizes({n, n, n * n});
  const auto scales = scale.value.to(z.scalar_type()).unbind();
  const auto scored = [&](size_t i) { return parts[i] * scales[i] + bases[i]; };
  Site site;
  site.collapsed_TH = weighted(x_TS, scored(0).sigmoid() + eps);
  site.post_TN = scored(1).sigmoid() * 2;
  site.comb_TNN = sinkhorn(scored(2).unflatten(1, {n, n}), iterations, eps);
  return site;
}

at::Tensor HyperConnection::close(const at::Tensor& x_TS, const at::Tensor& y_TH,
                                  const Site& site) const {
  const auto type = x_TS.scalar_type();
  const at::Tensor x_TNH = x_TS.unflatten(1, {streams, -1});
  const at::Tensor mixed_TNH = at::bmm(site.comb_TNN.to(type).transpose(1, 2), x_TNH);
  return (mixed_TNH + site.post_TN.to(type).unsqueeze(-1) * y_TH.unsqueeze(1)).flatten(1);
}

at::Tensor StreamHead::forward(const at::Tensor& x_TS) const {
  const at::Tensor z = mapped(x_TS, fn.value, norm_eps);
  const auto type = z.scalar_type();
  return weighted(x_TS, (z * scale.value.to(type) + base.value.to(type)).sigmoid() + eps);
}

at::Tensor as_streams(const at::Tensor& x_TH, int64_t streams) {
  return x_TH.unsqueeze(1).expand({-1, streams, -1}).flatten(1);
}

}  // namespace tessera
