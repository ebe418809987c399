#include "tessera/schedule/make_schedule.h"

#include <algorithm>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/schedule/schedule_formulas.h"
#include "tessera/schedule/timetable.h"
#include "tessera/schedule/transfers.h"

namespace tessera {
namespace {

void check_options(const ScheduleOptions& o) {
  TESSERA_CHECK(o.stages >= 1, "stages ", o.stages);
  TESSERA_CHECK(o.chunks >= 1, "chunks ", o.chunks);
  TESSERA_CHECK(o.micro_batches >= 1, "micro-batches ", o.micro_batches);
  TESSERA_CHECK(o.kind != ScheduleKind::k1F1B || o.chunks == 1,
                "plain 1F1B has one chunk a rank, not ", o.chunks);
  TESSERA_CHECK(o.kind != ScheduleKind::kGPipe || !o.overlap_b_f,
                "GPipe has no forward beside a backward");
}

struct ChunkOfBatch {
  int64_t chunk;
  int64_t micro_batch;
};

// The k-th forward is entry k; the k-th backward too, with the chunks counted from the last.
std::vector<ChunkOfBatch> forward_order(const ScheduleOptions& o) {
  std::vector<ChunkOfBatch> order;
  order.reserve(o.chunks * o.micro_batches);
  int64_t first = 0;
  for (const int64_t size : round_sizes(o)) {
    for (int64_t chunk = 0; chunk < o.chunks; ++chunk) {
      for (int64_t i = 0; i < size; ++i) order.push_back({chunk, first + i});
    }
    first += size;
  }
  return order;
}

Action computation(ActionKind kind, int64_t chunk, int64_t micro_batch, int64_t virtual_stage,
                   int64_t column) {
  Action a;
  a.kind = kind;
  a.chunk = chunk;
  a.micro_batch = micro_batch;
  a.virtual_stage = virtual_stage;
  a.column = column;
  return a;
}

std::vector<Action> computations(const ScheduleOptions& o, int64_t rank) {
  const Timetable timetable(o, rank);
  const std::vector<ChunkOfBatch> order = forward_order(o);
  std::vector<Action> actions;
  actions.reserve(2 * order.size());
  for (size_t k = 0; k < order.size(); ++k) {
    const auto [chunk, micro_batch] = order[k];
    const int64_t mirrored = o.chunks - 1 - chunk;
    actions.push_back(computation(ActionKind::kForward, chunk, micro_batch, chunk * o.stages + rank,
                                  timetable.forward(k)));
    actions.push_back(computation(ActionKind::kBackward, mirrored, micro_batch,
                                  mirrored * o.stages + rank, timetable.backward(k)));
  }
  // Stable: of a pair, the backward comes first, its k being the smaller one.
  std::stable_sort(actions.begin(), actions.end(),
                   [](const Action& a, const Action& b) { return a.column < b.column; });
  return actions;
}

// A backward and the forward of the same column become one action.
void join_pairs(std::vector<Action>& actions) {
  std::vector<Action> joined;
  for (const Action& a : actions) {
    if (joined.empty() || joined.back().column != a.column) {
      joined.push_back(a);
      continue;
    }
    const Action backward = joined.back();
    Action& pair = joined.back();
    pair = a;
    pair.kind = ActionKind::kOverlapForwardBackward;
    pair.backward_chunk = backward.chunk;
    pair.backward_micro_batch = backward.micro_batch;
    pair.backward_virtual_stage = backward.virtual_stage;
  }
  actions = std::move(joined);
}

}  // namespace

PipelineSchedule make_schedule(const ScheduleOptions& options) {
  check_options(options);
  PipelineSchedule schedule{options, {}};
  for (int64_t rank = 0; rank < options.stages; ++rank) {
    schedule.ranks.push_back(computations(options, rank));
    if (options.overlap_b_f) join_pairs(schedule.ranks.back());
  }
  insert_transfers(schedule);
  return schedule;
}

}  // namespace tessera
