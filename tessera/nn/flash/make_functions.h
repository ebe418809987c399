#pragma once

// Included once for each instruction set, after the pragma that chooses it.

#include "tessera/nn/flash/backward.h"
#include "tessera/nn/flash/forward.h"
#include "tessera/nn/flash/functions.h"

namespace tessera::kernels::flash {

template <typename Set, typename T>
constexpr Functions<T> make_functions() {
  using L = Lanes<Set, Wide<T>>;
  return {&run_forward<L, T>, &run_backward<L, T>, &room_bytes<ForwardRoom<L>>,
          &room_bytes<BackwardRoom<L>>};
}

}  // namespace tessera::kernels::flash
