#include "tessera/schedule/weight_actions.h"

#include <algorithm>

namespace tessera {
namespace {

Action weight_action(ActionKind kind, const Pass& of, int64_t column) {
  Action a;
  a.kind = kind;
  a.chunk = of.chunk;
  a.micro_batch = -1;
  a.virtual_stage = of.virtual_stage;
  a.column = column;
  return a;
}

void add_gathers(std::vector<Action>& actions) {
  std::vector<bool> seen;
  size_t previous = 0;  // the computation before the current one
  for (size_t i = 0; i < actions.size(); ++i) {
    if (!is_compute(actions[i])) continue;
    if (has_forward(actions[i])) {
      const Pass pass = forward_pass(actions[i]);
      if (pass.chunk >= static_cast<int64_t>(seen.size())) seen.resize(pass.chunk + 1, false);
      if (!seen[pass.chunk]) {
        seen[pass.chunk] = true;
        const Action gather = weight_action(ActionKind::kUnshard, pass, actions[previous].column);
        actions.insert(actions.begin() + previous, gather);
        ++i;
      }
    }
    previous = i;
  }
}

// Where a reduction after the backward at `index` belongs: behind its send, if there is one.
size_t behind_send(const std::vector<Action>& actions, size_t index) {
  const Pass pass = backward_pass(actions[index]);
  for (size_t i = index + 1; i < actions.size() && !is_compute(actions[i]); ++i) {
    if (actions[i].kind == ActionKind::kSendBackward && forward_pass(actions[i]) == pass)
      return i + 1;
  }
  return index + 1;
}

}  // namespace

void add_weight_actions(PipelineSchedule& schedule, const WeightActionOptions& options) {
  for (std::vector<Action>& actions : schedule.ranks) {
    if (options.gather_once) add_gathers(actions);
    // From the back: the first backward seen of a chunk is its last one.
    std::vector<bool> seen(schedule.options.chunks, false);
    for (size_t i = actions.size(); i-- > 0;) {
      if (!has_backward(actions[i])) continue;
      const Pass pass = backward_pass(actions[i]);
      const bool last = !seen[pass.chunk];
      seen[pass.chunk] = true;
      const int64_t column = actions[i].column;
      auto at = actions.begin() + behind_send(actions, i);
      if (last && options.gather_once) {
        at = actions.insert(at, weight_action(ActionKind::kReshard, pass, column));
      }
      if (last || options.reduce_every_backward) {
        actions.insert(at, weight_action(ActionKind::kReduceGradients, pass, column));
      }
    }
  }
}

}  // namespace tessera
