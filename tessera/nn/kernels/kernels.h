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

/// out = silu(gate) * up.
template <typename T>
void swiglu(Rows<const T> gate, Rows<const T> up, int64_t width, Rows<T> out, int64_t begin,
            int64_t end);
template <typename T>
void swiglu_backward(Rows<const T> dout, Rows<const T> gate, Rows<const T> up, int64_t width,
                     Rows<T> dgate, Rows<T> dup, int64_t begin, int64_t end);

/// losses[r] = weight[r] * (logsumexp(row) - row[label[r]]); with_gradient: the row becomes the
/// gradient of that. Rows of weight 0 are not looked at: loss and gradient 0. `scratch` holds
/// `width` elements.
template <typename T>
void cross_entropy(Rows<T> logits, int64_t width, const int64_t* labels, const double* weights,
                   bool with_gradient, double* losses, Wide<T>* scratch, int64_t begin,
                   int64_t end);

}  // namespace tessera::kernels
