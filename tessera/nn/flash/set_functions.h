#pragma once

// What the sources of the sets define and functions.cpp chooses from.

#include "tessera/nn/flash/functions.h"

namespace tessera::kernels::flash {

template <typename T>
const Functions<T>& plain_functions();
template <typename T>
const Functions<T>& avx2_functions();
template <typename T>
const Functions<T>& avx512_functions();

}  // namespace tessera::kernels::flash
