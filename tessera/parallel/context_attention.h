#pragma once

#include <string>

#include "tessera/comm/process_group.h"
#include "tessera/nn/seams.h"

namespace tessera {

/// How keys and values reach the queries of other rows of the grid.
enum class KeyExchange {
  kAuto,       // by size: gathered while that is small, else in turn
  kRing,       // one row's at a time: two blocks of keys and values exist at once
  kAllGather,  // all at once
};

struct KeyPlan;  // key_exchange.h
class KeyValues;

/// The context-parallel form of CoreAttention (see context_parallel.h).
struct ContextAttention : CoreAttention {
  ProcessGroup inner;  // neighbours that trade heads for sequence
  ProcessGroup outer;  // equal places of the rows
  KeyExchange exchange = KeyExchange::kAuto;
  bool async = false;  // the trade of each of q, k, v starts when it is offered, and in the
                       // backward pass is awaited when its projection needs it
  std::unique_ptr<AttentionCall> begin(const LayerContext& context) override;
  /// How keys and values of one call travel over `outer`; `k` gives their size.
  virtual std::shared_ptr<KeyValues> keys(KeyPlan plan, const at::Tensor& k) const;
};

}  // namespace tessera
