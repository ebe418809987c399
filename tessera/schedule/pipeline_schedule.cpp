#include "tessera/schedule/pipeline_schedule.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/schedule/schedule_formulas.h"
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

/// When the k-th forward and backward of a rank run, in columns that each take one computation (or
/// one pair) of every rank. Outputs of a column are there in the next one.
struct Timetable {
  int64_t warmup;          // forwards before the first backward, see warmup_forwards()
  int64_t first_forward;   // column: the rank's number
  int64_t first_backward;  // column
  int64_t stride;          // columns from a backward to the next: 2 where a forward goes between
  int64_t short_round;     // m
  int64_t wait;            // columns that a chunk waits for the one before it, p - m where m < p

  Timetable(const ScheduleOptions& o, int64_t rank)
      : warmup(warmup_forwards(o, rank)),
        first_forward(rank),
        short_round(o.micro_batches),
        wait(std::max<int64_t>(o.stages - o.micro_batches, 0)) {
    const int64_t to_last = o.stages - 1 - rank;
    // Forward 0 of the last chunk ends on the last rank: the first backward can go there.
    const int64_t turn = (o.chunks - 1) * std::max(round_sizes(o).front(), o.stages) + o.stages;
    if (o.kind == ScheduleKind::kGPipe) {
      first_backward = turn + (o.micro_batches - 1) + to_last;
      stride = 1;
    } else if (o.overlap_b_f) {
      first_backward = turn + to_last;
      stride = 1;
    } else if (o.kind == ScheduleKind::kInterleaved1F1B) {
      // Two columns a rank: the neighbour's forward goes between.
      first_backward = turn + 2 * to_last;
      stride = 2;
    } else {
      first_backward = turn + to_last;
      stride = 2;
    }
  }

  int64_t warmup_forward(int64_t k) const { return first_forward + k + waited(k); }
  int64_t backward(int64_t k) const { return first_backward + stride * (k + waited(k)); }

 private:
  int64_t waited(int64_t k) const { return k / short_round * wait; }
};

std::vector<Action> computations(const ScheduleOptions& o, int64_t rank) {
  const std::vector<ChunkOfBatch> order = forward_order(o);
  const auto passes = static_cast<int64_t>(order.size());
  const Timetable at(o, rank);
  std::vector<Action> actions;

  const auto forward = [&](int64_t k, int64_t column) {
    const auto [chunk, micro_batch] = order[k];
    Action a;
    a.kind = ActionKind::kForward;
    a.chunk = chunk;
    a.micro_batch = micro_batch;
    a.virtual_stage = chunk * o.stages + rank;
    a.column = column;
    return a;
  };
  const auto backward = [&](int64_t k) {
    const int64_t chunk = o.chunks - 1 - order[k].chunk;
    Action a;
    a.kind = ActionKind::kBackward;
    a.chunk = chunk;
    a.micro_batch = order[k].micro_batch;
    a.virtual_stage = chunk * o.stages + rank;
    a.column = at.backward(k);
    return a;
  };
  const auto pair = [&](const Action& b, int64_t forward_index) {
    Action a = forward(forward_index, b.column);
    a.kind = ActionKind::kOverlapForwardBackward;
    a.backward_chunk = b.chunk;
    a.backward_micro_batch = b.micro_batch;
    a.backward_virtual_stage = b.virtual_stage;
    return a;
  };

  for (int64_t k = 0; k < at.warmup; ++k) actions.push_back(forward(k, at.warmup_forward(k)));
  if (o.overlap_b_f && at.warmup < passes) {
    actions.push_back(forward(at.warmup, at.backward(0) - 1));
  }
  for (int64_t k = 0; k < passes; ++k) {
    const int64_t next_forward = at.warmup + k + (o.overlap_b_f ? 1 : 0);
    if (next_forward >= passes) {
      actions.push_back(backward(k));
    } else if (o.overlap_b_f) {
      actions.push_back(pair(backward(k), next_forward));
    } else {
      actions.push_back(forward(next_forward, at.backward(k) - 1));
      actions.push_back(backward(k));
    }
  }
  return actions;
}

}  // namespace

PipelineSchedule make_schedule(const ScheduleOptions& options) {
  check_options(options);
  PipelineSchedule schedule{options, {}};
  for (int64_t rank = 0; rank < options.stages; ++rank) {
    schedule.ranks.push_back(computations(options, rank));
  }
  insert_transfers(schedule);
  return schedule;
}

std::string format_schedule(const PipelineSchedule& schedule, bool compute_only) {
  std::string text;
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    text += "rank " + std::to_string(rank) + ":";
    for (const Action& a : schedule.ranks[rank]) {
      if (!compute_only || is_compute(a)) text += " " + to_string(a);
    }
    text += "\n";
  }
  return text;
}

}  // namespace tessera
