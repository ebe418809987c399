#pragma once

// The all-to-all that trades heads for sequence (Jacobs et al. 2023, DeepSpeed Ulysses): u ranks
// that hold L places of every row with all heads come to hold all their u L places with 1/u of the
// heads.

#include <ATen/core/Tensor.h>

#include "tessera/comm/process_group.h"

namespace tessera {

/// An exchange on its way; finish() waits and returns it in order.
struct HeadExchange {
  Work work;
  at::Tensor received;
  at::Tensor sent;  // kept until the work is done
  int64_t rows = 0;
  int64_t heads = 0;  // before the exchange
  bool to_heads = false;
  at::Tensor finish();
};

/// x [R L, heads, D] -> finish(): [R, u L, max(1, heads / u), D]. Fewer heads than ranks are
/// copied: u must then be a multiple of heads.
HeadExchange sequence_to_heads(const at::Tensor& x, int64_t rows, const ProcessGroup& group);

/// The way back of the same tensor: x [R, u L, h, D] -> finish(): [R L, heads, D]. Copies are
/// summed.
HeadExchange heads_to_sequence(const at::Tensor& x, int64_t heads, const ProcessGroup& group);

}  // namespace tessera
