// The kernel for x86-64-v3: AVX2 with fused multiply-add.

// Headers of the library come first: their functions must run on every processor.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/nn/flash/set_functions.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#include <immintrin.h>
#pragma GCC target("arch=x86-64-v3")
#include "tessera/nn/flash/make_functions.h"

namespace tessera::kernels::flash {

template <typename T>
const Functions<T>& avx2_functions() {
  static constexpr Functions<T> all = make_functions<Avx2, T>();
  return all;
}

template const Functions<float>& avx2_functions<float>();
template const Functions<double>& avx2_functions<double>();
template const Functions<Bf16>& avx2_functions<Bf16>();

}  // namespace tessera::kernels::flash

#endif
