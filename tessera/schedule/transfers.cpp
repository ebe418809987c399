#include "tessera/schedule/transfers.h"

#include <algorithm>
#include <tuple>

namespace tessera {
namespace {

struct Transfer {
  Action send;
  Action receive;
  int64_t sender;
  int64_t receiver;
};

auto global_order(const Transfer& t) {
  const bool backward = t.send.kind == ActionKind::kSendBackward;
  return std::tuple(t.send.column, backward, t.sender % 2, t.sender);
}

// The message with the output of `pass`, done in `column` on `rank`; `forward` to the next virtual
// stage, else to the previous one.
void append_transfer(std::vector<Transfer>& transfers, const ScheduleOptions& o, int64_t rank,
                     const Pass& pass, int64_t column, bool forward) {
  const int64_t to_stage = pass.virtual_stage + (forward ? 1 : -1);
  if (to_stage < 0 || to_stage == o.virtual_stages()) return;  // an end of the model
  const int64_t receiver = to_stage % o.stages;
  if (receiver == rank) return;  // p = 1: stays where it is

  const int64_t boundary = std::min(pass.virtual_stage, to_stage);
  const int64_t boundaries = o.virtual_stages() - 1;
  Action send;
  send.kind = forward ? ActionKind::kSendForward : ActionKind::kSendBackward;
  send.chunk = pass.chunk;
  send.micro_batch = pass.micro_batch;
  send.virtual_stage = pass.virtual_stage;
  send.peer = receiver;
  send.tag = 2 * (pass.micro_batch * boundaries + boundary) + (forward ? 0 : 1);
  send.column = column;

  Action receive = send;
  receive.kind = forward ? ActionKind::kRecvForward : ActionKind::kRecvBackward;
  receive.chunk = to_stage / o.stages;
  receive.virtual_stage = to_stage;
  receive.peer = rank;
  transfers.push_back({send, receive, rank, receiver});
}

}  // namespace

void insert_transfers(PipelineSchedule& schedule) {
  std::vector<Transfer> transfers;
  for (int64_t rank = 0; rank < schedule.options.stages; ++rank) {
    for (const Action& a : schedule.ranks[rank]) {
      if (has_forward(a)) {
        append_transfer(transfers, schedule.options, rank, forward_pass(a), a.column, true);
      }
      if (has_backward(a)) {
        append_transfer(transfers, schedule.options, rank, backward_pass(a), a.column, false);
      }
    }
  }
  std::sort(transfers.begin(), transfers.end(),
            [](const Transfer& a, const Transfer& b) { return global_order(a) < global_order(b); });

  std::vector<std::vector<Action>> of_rank(schedule.options.stages);
  for (const Transfer& t : transfers) {
    of_rank[t.sender].push_back(t.send);
    of_rank[t.receiver].push_back(t.receive);
  }
  for (int64_t rank = 0; rank < schedule.options.stages; ++rank) {
    const std::vector<Action>& computations = schedule.ranks[rank];
    std::vector<Action> merged(computations.size() + of_rank[rank].size());
    // Stable: of one column, the computation comes first.
    std::merge(computations.begin(), computations.end(), of_rank[rank].begin(), of_rank[rank].end(),
               merged.begin(),
               [](const Action& a, const Action& b) { return a.column < b.column; });
    schedule.ranks[rank] = std::move(merged);
  }
}

}  // namespace tessera
