// The kernel for any processor.

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

#include "tessera/nn/flash/make_functions.h"
#include "tessera/nn/flash/set_functions.h"

namespace tessera::kernels::flash {

template <typename T>
const Functions<T>& plain_functions() {
  static constexpr Functions<T> all = make_functions<Plain, T>();
  return all;
}

template const Functions<float>& plain_functions<float>();
template const Functions<double>& plain_functions<double>();
template const Functions<Bf16>& plain_functions<Bf16>();

}  // namespace tessera::kernels::flash
