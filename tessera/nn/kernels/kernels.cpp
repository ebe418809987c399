#include "tessera/nn/kernels/kernels.h"

namespace tessera::kernels {

namespace {

template <typename T>
TESSERA_INLINE void rms_norm_rows(Rows<const T> x, int64_t width, const Wide<T>* __restrict weight,
                                  double eps, Rows<T> y, Wide<T>* __restrict inv, int64_t begin,
                                  int64_t end) {
  using W = Wide<T>;
  for (int64_t r = begin; r < end; ++r) {
    const T* __restrict row = x[r];
    T* __restrict out = y[r];
    W squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < width; ++i) {
      const W value = load(row[i]);
      squares += value * value;
    }
    const W scale =
        W{1} /
        static_cast<W>(__builtin_sqrt(squares / static_cast<W>(width) + static_cast<W>(eps)));
    inv[r] = scale;
    for (int64_t i = 0; i < width; ++i) store(out[i], load(row[i]) * scale * weight[i]);
  }
}

template <typename T>
TESSERA_INLINE void rms_norm_backward_rows(Rows<const T> dy, Rows<const T> x, int64_t width,
                                           const Wide<T>* __restrict weight,
                                           const Wide<T>* __restrict inv, Rows<T> dx,
                                           Wide<T>* __restrict dweight, int64_t begin,
                                           int64_t end) {
  using W = Wide<T>;
  for (int64_t r = begin; r < end; ++r) {
    const T* __restrict grad = dy[r];
    const T* __restrict row = x[r];
    T* __restrict out = dx[r];
    const W scale = inv[r];
    W along = 0;
#pragma omp simd reduction(+ : along)
    for (int64_t i = 0; i < width; ++i) along += load(grad[i]) * weight[i] * load(row[i]);
    along *= scale * scale / static_cast<W>(width);
    for (int64_t i = 0; i < width; ++i) {
      const W g = load(grad[i]);
      const W value = load(row[i]);
      dweight[i] += g * value * scale;
      store(out[i], scale * (g * weight[i] - value * along));
    }
  }
}

template <typename T>
TESSERA_INLINE void rotate_rows(Rows<const T> x, int64_t width, int64_t half, int64_t heads,
                                const Wide<T>* cos, const Wide<T>* sin, int direction, Rows<T> y,
                                int64_t begin, int64_t end) {
  using W = Wide<T>;
  const W sign = static_cast<W>(direction);
  for (int64_t r = begin; r < end; ++r) {
    const T* low = x[r];
    const T* high = low + half;
    T* out_low = y[r];
    T* out_high = out_low + half;
    const W* c = cos + r / heads * half;
    const W* s = sin + r / heads * half;
#pragma omp simd
    for (int64_t i = 0; i < half; ++i) {
      const W a = load(low[i]);
      const W b = load(high[i]);
      const W turned = sign * s[i];
      store(out_low[i], a * c[i] - b * turned);
      store(out_high[i], b * c[i] + a * turned);
    }
    if (out_low == low) continue;
    for (int64_t i = 2 * half; i < width; ++i) out_low[i] = low[i];
  }
}

// kPlain: the unit is SwiGLU, which needs none of the other numbers.
template <bool kPlain, typename T>
TESSERA_INLINE void gated_rows(const GatedUnit& unit, Rows<const T> gate, Rows<const T> up,
                               int64_t width, Rows<T> out, int64_t begin, int64_t end) {
  using W = Wide<T>;
  const W slope = static_cast<W>(unit.slope), cubic = static_cast<W>(unit.cubic);
  const W shift = static_cast<W>(unit.shift), limit = static_cast<W>(unit.limit);
  for (int64_t r = begin; r < end; ++r) {
    const T* __restrict g = gate[r];
    const T* __restrict u = up[r];
    T* __restrict to = out[r];
    for (int64_t i = 0; i < width; ++i) {
      W value = load(g[i]);
      if constexpr (kPlain) {
        store(to[i], value / (W{1} + exp_of(-value)) * load(u[i]));
      } else {
        W other = load(u[i]);
        value = value > limit ? limit : value;
        other = other > limit ? limit : other;
        other = other < -limit ? -limit : other;
        const W inner = slope * (value + cubic * value * value * value);
        store(to[i], value / (W{1} + exp_of(-inner)) * (other + shift));
      }
    }
  }
}

template <bool kPlain, typename T>
TESSERA_INLINE void gated_backward_rows(const GatedUnit& unit, Rows<const T> dout,
                                        Rows<const T> gate, Rows<const T> up, int64_t width,
                                        Rows<T> dgate, Rows<T> dup, int64_t begin, int64_t end) {
  using W = Wide<T>;
  const W slope = static_cast<W>(unit.slope), cubic = static_cast<W>(unit.cubic);
  const W shift = static_cast<W>(unit.shift), limit = static_cast<W>(unit.limit);
  for (int64_t r = begin; r < end; ++r) {
    const T* __restrict grad = dout[r];
    const T* __restrict g = gate[r];
    const T* __restrict u = up[r];
    T* __restrict to_gate = dgate[r];
    T* __restrict to_up = dup[r];
    for (int64_t i = 0; i < width; ++i) {
      W value = load(g[i]);
      const W above = load(grad[i]);
      if constexpr (kPlain) {
        const W sigmoid = W{1} / (W{1} + exp_of(-value));
        const W silu = value * sigmoid;
        store(to_gate[i], above * load(u[i]) * (sigmoid + silu * (W{1} - sigmoid)));
        store(to_up[i], above * silu);
      } else {
        const W given = load(u[i]);
        const W gate_passes = value > limit ? W{0} : W{1};
        const W up_passes = given > limit || given < -limit ? W{0} : W{1};
        value = value > limit ? limit : value;
        W other = given > limit ? limit : given;
        other = other < -limit ? -limit : other;
        const W square = cubic * value * value;
        const W sigmoid = W{1} / (W{1} + exp_of(-(slope * (value + square * value))));
        const W made = value * sigmoid;
        const W steep = slope * (W{1} + W{3} * square);
        store(to_gate[i],
              gate_passes * above * (other + shift) * (sigmoid + made * (W{1} - sigmoid) * steep));
        store(to_up[i], up_passes * above * made);
      }
    }
  }
}

// tanh by e^x.
template <typename W>
TESSERA_INLINE W tanh_of(W x) {
  return W{1} - W{2} / (W{1} + exp_of(W{2} * x));
}

template <typename T>
TESSERA_INLINE void cross_entropy_rows(Rows<T> logits, int64_t width, const int64_t* labels,
                                       const double* weights, double cap, bool with_gradient,
                                       double* losses, Wide<T>* __restrict scratch, int64_t begin,
                                       int64_t end) {
  using W = Wide<T>;
  const W bound = static_cast<W>(cap);
  for (int64_t r = begin; r < end; ++r) {
    T* __restrict row = logits[r];
    if (weights[r] == 0.0) {
      losses[r] = 0.0;
      if (with_gradient) {
        for (int64_t i = 0; i < width; ++i) store(row[i], W{0});
      }
      continue;
    }
    if (bound > 0) {
      for (int64_t i = 0; i < width; ++i) store(row[i], bound * tanh_of(load(row[i]) / bound));
    }
    W largest = load(row[0]);
#pragma omp simd reduction(max : largest)
    for (int64_t i = 0; i < width; ++i) {
      const W value = load(row[i]);
      largest = largest < value ? value : largest;
    }
    W sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < width; ++i) {
      const W power = exp_of(load(row[i]) - largest);
      scratch[i] = power;
      sum += power;
    }
    const int64_t label = labels[r];
    const double log_sum = static_cast<double>(largest) + __builtin_log(static_cast<double>(sum));
    losses[r] = weights[r] * (log_sum - static_cast<double>(load(row[label])));
    if (!with_gradient) continue;
    const W weight = static_cast<W>(weights[r]);
    const W factor = weight / sum;
    if (bound > 0) {  // times the derivative of the cap, 1 - (z / cap)^2 of the capped z
      scratch[label] -= sum;
      for (int64_t i = 0; i < width; ++i) {
        const W share = load(row[i]) / bound;
        store(row[i], scratch[i] * factor * (W{1} - share * share));
      }
      continue;
    }
    for (int64_t i = 0; i < width; ++i) store(row[i], scratch[i] * factor);
    store(row[label], scratch[label] * factor - weight);
  }
}

}  // namespace

// Clones cannot be templates: one set of functions per type.
#define TESSERA_KERNELS(T)                                                                        \
  template <>                                                                                     \
  TESSERA_CLONES void rms_norm<T>(Rows<const T> x, int64_t width, const Wide<T>* weight,          \
                                  double eps, Rows<T> y, Wide<T>* inv, int64_t begin,             \
                                  int64_t end) {                                                  \
    rms_norm_rows<T>(x, width, weight, eps, y, inv, begin, end);                                  \
  }                                                                                               \
  template <>                                                                                     \
  TESSERA_CLONES void rms_norm_backward<T>(Rows<const T> dy, Rows<const T> x, int64_t width,      \
                                           const Wide<T>* weight, const Wide<T>* inv, Rows<T> dx, \
                                           Wide<T>* dweight, int64_t begin, int64_t end) {        \
    rms_norm_backward_rows<T>(dy, x, width, weight, inv, dx, dweight, begin, end);                \
  }                                                                                               \
  template <>                                                                                     \
  TESSERA_CLONES void rotate<T>(Rows<const T> x, int64_t width, int64_t half, int64_t heads,      \
                                const Wide<T>* cos, const Wide<T>* sin, int direction, Rows<T> y, \
                                int64_t begin, int64_t end) {                                     \
    rotate_rows<T>(x, width, half, heads, cos, sin, direction, y, begin, end);                    \
  }                                                                                               \
  template <>                                                                                     \
  TESSERA_CLONES void gated_unit<T>(const GatedUnit& unit, Rows<const T> gate, Rows<const T> up,  \
                                    int64_t width, Rows<T> out, int64_t begin, int64_t end) {     \
    if (unit == GatedUnit{}) {                                                                    \
      gated_rows<true, T>(unit, gate, up, width, out, begin, end);                                \
    } else {                                                                                      \
      gated_rows<false, T>(unit, gate, up, width, out, begin, end);                               \
    }                                                                                             \
  }                                                                                               \
  template <>                                                                                     \
  TESSERA_CLONES void gated_unit_backward<T>(                                                     \
      const GatedUnit& unit, Rows<const T> dout, Rows<const T> gate, Rows<const T> up,            \
      int64_t width, Rows<T> dgate, Rows<T> dup, int64_t begin, int64_t end) {                    \
    if (unit == GatedUnit{}) {                                                                    \
      gated_backward_rows<true, T>(unit, dout, gate, up, width, dgate, dup, begin, end);          \
    } else {                                                                                      \
      gated_backward_rows<false, T>(unit, dout, gate, up, width, dgate, dup, begin, end);         \
    }                                                                                             \
  }                                                                                               \
  template <>                                                                                     \
  TESSERA_CLONES void cross_entropy<T>(                                                           \
      Rows<T> logits, int64_t width, const int64_t* labels, const double* weights, double cap,    \
      bool with_gradient, double* losses, Wide<T>* scratch, int64_t begin, int64_t end) {         \
    cross_entropy_rows<T>(logits, width, labels, weights, cap, with_gradient, losses, scratch,    \
                          begin, end);                                                            \
  }

TESSERA_KERNELS(float)
TESSERA_KERNELS(double)
TESSERA_KERNELS(Bf16)

}  // namespace tessera::kernels
