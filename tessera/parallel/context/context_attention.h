#pragma once

#include <string>

#include "tessera/comm/process_group.h"
#include "tessera/layout/context_grid.h"
#include "tessera/nn/seams.h"

namespace tessera {

struct KeyPlan;  // key_exchange.h
class KeyValues;

/// The context-parallel form of CoreAttention (see context_parallel.h).
struct ContextAttention : CoreAttention {
  ProcessGroup inner;  // neighbours that trade heads for sequence
  ProcessGroup outer;  // ranks at the same place of every group of neighbours
  KeyExchange exchange = KeyExchange::kAuto;
  /// The trade of each of q, k and v starts when it is offered; in the backward pass the trade of
  /// its gradient is awaited when its projection needs it.
  bool async = false;
  std::unique_ptr<AttentionCall> begin(const LayerContext& context) override;
  /// How keys and values of one call travel over `outer`; `k` gives their size.
  virtual std::shared_ptr<KeyValues> keys(KeyPlan plan, const at::Tensor& k) const;
};

}  // namespace tessera
