#pragma once

// CPU kernels over raw memory, one pass each. T is float, double or Bf16; sums and functions are
// computed in Wide<T>. Rows of a matrix may be strided, elements of a row lie together. Every row
// is computed by itself, so results do not depend on how rows are shared among threads.

#include <cstdint>

#include "tessera/nn/kernels/vector_math.h"

namespace tessera::kernels {

/// Rows of a [outer, inner, width] tensor whose last dimension is dense: row r is
/// data + (r / inner) * outer_stride + (r % inner) * inner_stride.
template <typename T>
struct Rows {
  T* data = nullptr;
  int64_t inner = 1;
  int64_t outer_stride = 0;
  int64_t inner_stride = 0;

  TESSERA_INLINE T* operator[](int64_t r) const {
    return data + (r / inner) * outer_stride + (r % inner) * inner_stride;
  }
};

/// y = x * inv * weight, inv[r] = 1 / sqrt(mean(x^2) + eps), for rows [begin, end).
template <typename T>
void rms_norm(Rows<const T> x, int64_t width, const Wide<T>* weight, double eps, Rows<T> y,
              Wide<T>* inv, int64_t begin, int64_t end);

/// dx of rows [begin, end); their part of dweight is added to `dweight`.
template <typename T>
void rms_norm_backward(Rows<const T> dy, Rows<const T> x, int64_t width, const Wide<T>* weight,
                       const Wide<T>* inv, Rows<T> dx, Wide<T>* dweight, int64_t begin,
                       int64_t end);

/// Rotates pairs (i, i + half) of every row by the angle of its token, cos and sin [tokens, half],
/// `heads` rows a token (direction -1: back); elements beyond 2 half are copied. y may be x.
template <typename T>
void rotate(Rows<const T> x, int64_t width, int64_t half, int64_t heads, const Wide<T>* cos,
            const Wide<T>* sin, int direction, Rows<T> y, int64_t begin, int64_t end);

/// What is between gate and up of a feed-forward part. First both are clamped: gate to at most
/// `limit`, up to [-limit, limit]; then out = gate * sigmoid(slope * (gate + cubic * gate^3)) *
/// (up + shift). As it stands: SwiGLU (Shazeer 2020, arXiv 2002.05202).
struct GatedUnit {
  double slope = 1.0;
  double cubic = 0.0;
  double shift = 0.0;
  double limit = __builtin_inf();

  bool operator==(const GatedUnit&) const = default;
};

/// The gate is the tanh approximation of GELU (Hendrycks and Gimpel 2016, arXiv 1606.08415):
/// 1 + tanh(u) = 2 sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3).
inline constexpr GatedUnit kGeluTanhUnit{1.5957691216057308, 0.044715, 0.0, __builtin_inf()};

template <typename T>
void gated_unit(const GatedUnit& unit, Rows<const T> gate, Rows<const T> up, int64_t width,
                Rows<T> out, int64_t begin, int64_t end);
/// A clamp passes no gradient beyond its limit.
template <typename T>
void gated_unit_backward(const GatedUnit& unit, Rows<const T> dout, Rows<const T> gate,
                         Rows<const T> up, int64_t width, Rows<T> dgate, Rows<T> dup, int64_t begin,
                         int64_t end);

/// losses[r] = weight[r] * (logsumexp(row) - row[label[r]]); with_gradient: the row becomes the
/// gradient of that. Rows of weight 0 are not looked at: loss and gradient 0. With a `cap` above 0
/// a logit z counts as cap * tanh(z / cap). `scratch` holds `width` elements.
template <typename T>
void cross_entropy(Rows<T> logits, int64_t width, const int64_t* labels, const double* weights,
                   double cap, bool with_gradient, double* losses, Wide<T>* scratch, int64_t begin,
                   int64_t end);

}  // namespace tessera::kernels
