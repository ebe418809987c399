#pragma once

// How the keys and values of the other groups of a context-parallel grid (layout/context_grid.h)
// come to this rank's queries, and how their gradients come back.

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "tessera/comm/process_group.h"
#include "tessera/layout/context_grid.h"
#include "tessera/parallel/context/attention_blocks.h"

namespace tessera {

struct KeyPlan {
  std::vector<std::vector<VisibleBlock>> mine;  // [peer]: my queries, the peer's keys
  std::vector<bool> of_mine;                    // [peer]: whether its queries see my keys
};

/// Tag of the messages that carry the gradient of keys in a ring. The gradient of values travels
/// under the next tag.
constexpr int64_t kRingKeyGradientTag = 2;

class KeyValues {
 public:
  virtual ~KeyValues() = default;
  /// Attends to all keys. Collective over the group, as is backward.
  virtual void forward(const at::Tensor& k, const at::Tensor& v, BlockAttention& attention) = 0;
  /// Adds to dq, dk and dv of this rank's q, k and v, in a fixed order.
  virtual void backward(const AttentionSaved& saved, at::Tensor& dq, at::Tensor& dk,
                        at::Tensor& dv) = 0;
};

/// `k` gives the size by which kAuto decides; it is the same on all ranks of `group`.
std::shared_ptr<KeyValues> make_key_exchange(KeyPlan plan, const ProcessGroup& group,
                                             KeyExchange how, const at::Tensor& k);

}  // namespace tessera
