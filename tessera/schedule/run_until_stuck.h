#pragma once

#include <cstdint>

namespace tessera {

/// Calls step(rank), which moves a rank by one action or returns false where it cannot, until no
/// rank can go on. Which rank goes first makes no difference to where they end.
template <typename Step>
void run_until_stuck(int64_t ranks, Step step) {
  for (bool moved = true; moved;) {
    moved = false;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      while (step(rank)) moved = true;
    }
  }
}

}  // namespace tessera
