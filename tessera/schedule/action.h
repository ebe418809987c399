#pragma once

#include <cstdint>
#include <string>

namespace tessera {

/// What one step of a rank's list does. Transfers name the chunk on their own side: kSendForward
/// sends the output of the chunk, kRecvForward takes its input, kSendBackward sends the gradient of
/// its input, kRecvBackward takes the gradient of its output.
enum class ActionKind {
  kForward,
  kBackward,
  kOverlapForwardBackward,  // a backward and a forward of another micro-batch, in one step
  kSendForward,
  kRecvForward,
  kSendBackward,
  kRecvBackward,
};

/// One step of one rank: plain data for whoever runs, checks, times or draws it.
///
/// Chunk c of rank r is virtual stage c * stages + r; activations go from virtual stage s to s + 1,
/// gradients back.
struct Action {
  ActionKind kind = ActionKind::kForward;
  int64_t chunk = 0;
  int64_t micro_batch = 0;
  int64_t virtual_stage = 0;

  // kOverlapForwardBackward only: the backward half. The three fields above are its forward half.
  int64_t backward_chunk = -1;
  int64_t backward_micro_batch = -1;
  int64_t backward_virtual_stage = -1;

  // Transfers only: the rank (on the pipeline axis) at the other end, and a number that no other
  // transfer of the step has: both ends of one message carry the same.
  int64_t peer = -1;
  int64_t tag = -1;

  // The column of the timetable where the generator put it; transfers have the column of the
  // computation that they follow. For drawings, and the order between ranks.
  int64_t column = 0;

  bool operator==(const Action&) const = default;
};

constexpr bool has_forward(const Action& a) {
  return a.kind == ActionKind::kForward || a.kind == ActionKind::kOverlapForwardBackward;
}
constexpr bool has_backward(const Action& a) {
  return a.kind == ActionKind::kBackward || a.kind == ActionKind::kOverlapForwardBackward;
}
constexpr bool is_compute(const Action& a) { return has_forward(a) || has_backward(a); }
constexpr bool is_send(const Action& a) {
  return a.kind == ActionKind::kSendForward || a.kind == ActionKind::kSendBackward;
}
constexpr bool is_receive(const Action& a) {
  return a.kind == ActionKind::kRecvForward || a.kind == ActionKind::kRecvBackward;
}
constexpr bool is_transfer(const Action& a) { return is_send(a) || is_receive(a); }

/// Chunk, virtual stage and micro-batch of one forward or backward.
struct Pass {
  int64_t chunk = 0;
  int64_t virtual_stage = 0;
  int64_t micro_batch = 0;

  bool operator==(const Pass&) const = default;
};

/// The forward of an action with has_forward().
constexpr Pass forward_pass(const Action& a) { return {a.chunk, a.virtual_stage, a.micro_batch}; }

/// The backward of an action with has_backward().
constexpr Pass backward_pass(const Action& a) {
  if (a.kind == ActionKind::kBackward) return {a.chunk, a.virtual_stage, a.micro_batch};
  return {a.backward_chunk, a.backward_virtual_stage, a.backward_micro_batch};
}

/// "F3@2" (forward of micro-batch 3 at virtual stage 2), "B3@2", "[B0@2|F3@0]"; FS, FR, BS, BR for
/// transfers.
std::string to_string(const Action& action);

}  // namespace tessera
