#pragma once

// Attention over cp ranks that goes wrong in one place, for injected faults.

#include <memory>

#include "tessera/parallel/context/context_attention.h"

namespace tessera {

/// The same, but for the log-sum-exp that the backward pass reads: it is of the rank's own keys
/// alone; the keys of other ranks are not merged into it.
std::unique_ptr<CoreAttention> without_merged_lse(const ContextAttention& attention);

/// In a ring: the gradient that the queries of the next rank give to this one's keys is lost.
void lose_key_gradient(ContextAttention& attention);

}  // namespace tessera
