#include "tessera/nn/kernels/adamw_rows.h"

#include <cmath>

#include "tessera/nn/kernels/instruction_sets.h"

// Every instruction set gives the same bits: nothing here is contracted (cmake/floors.cmake).

namespace tessera::kernels {
namespace {

template <bool kMaximum, typename T>
TESSERA_INLINE void adamw_elements(const AdamWRows<T>& rows, const AdamWFactors& f, int64_t begin,
                                   int64_t end) {
  T* __restrict value = rows.value;
  const T* __restrict grad = rows.grad;
  T* __restrict average = rows.average;
  T* __restrict square = rows.square;
  T* __restrict maximum = rows.maximum;
  const T kept = static_cast<T>(f.kept), step = static_cast<T>(f.step);
  const T new1 = static_cast<T>(1.0 - f.beta1), new2 = static_cast<T>(1.0 - f.beta2);
  const T old2 = static_cast<T>(f.beta2), root = static_cast<T>(f.root);
  const T eps = static_cast<T>(f.eps);
  for (int64_t i = begin; i < end; ++i) {
    const T g = grad[i];
    const T m = average[i] + (g - average[i]) * new1;
    const T v = square[i] * old2 + g * g * new2;
    T largest = v;
    if constexpr (kMaximum) {
      largest = maximum[i] > v ? maximum[i] : v;
      maximum[i] = largest;
    }
    average[i] = m;
    square[i] = v;
    value[i] = value[i] * kept - step * m / (std::sqrt(largest) / root + eps);
  }
}

template <typename T>
TESSERA_INLINE void adamw_any(const AdamWRows<T>& rows, const AdamWFactors& factors, int64_t begin,
                              int64_t end) {
  if (rows.maximum != nullptr) {
    adamw_elements<true>(rows, factors, begin, end);
  } else {
    adamw_elements<false>(rows, factors, begin, end);
  }
}

}  // namespace

template <>
TESSERA_CLONES void adamw<float>(const AdamWRows<float>& rows, const AdamWFactors& factors,
                                 int64_t begin, int64_t end) {
  adamw_any(rows, factors, begin, end);
}
template <>
TESSERA_CLONES void adamw<double>(const AdamWRows<double>& rows, const AdamWFactors& factors,
                                  int64_t begin, int64_t end) {
  adamw_any(rows, factors, begin, end);
}

}  // namespace tessera::kernels
