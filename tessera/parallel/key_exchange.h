#pragma once

// How the keys and values of the other rows of a context-parallel grid come to this rank's queries,
// and their gradients back.

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "tessera/comm/process_group.h"
#include "tessera/parallel/attention_blocks.h"
#include "tessera/parallel/context_attention.h"

namespace tessera {

struct KeyPlan {
  std::vector<std::vector<VisibleBlock>> mine;  // [peer]: my queries, the peer's keys
  std::vector<bool> of_mine;                    // [peer]: whether its queries see my keys
};

/// Under which the gradient of a hop's keys travels in a ring; that of its values has the next.
constexpr int64_t kRingKeyGradientTag = 2;

/// What the backward of a call needs; all [R, L, heads, D], lse [R, N, L].
struct AttentionSaved {
  const at::Tensor& grad_out;
  const at::Tensor& q;
  const at::Tensor& k;
  const at::Tensor& v;
  const at::Tensor& out;
  const at::Tensor& lse;
  double scale;
};

class KeyValues {
 public:
  virtual ~KeyValues() = default;
  /// Attends to all keys. Collective over the group, as is backward.
  virtual void forward(const at::Tensor& k, const at::Tensor& v, BlockAttention& attention) = 0;
  /// Adds to dq, dk and dv of this rank's q, k and v, in a fixed order.
  virtual void backward(const AttentionSaved& saved, at::Tensor& dq, at::Tensor& dk,
                        at::Tensor& dv) = 0;
};

/// `k` gives the size by which kAuto decides: ranks of a group decide alike.
std::shared_ptr<KeyValues> make_key_exchange(KeyPlan plan, const ProcessGroup& group,
                                             KeyExchange how, const at::Tensor& k);

}  // namespace tessera
