#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/schedule/action.h"

namespace tessera {

enum class ScheduleKind {
  k1F1B,             // one chunk a rank: warm-up, then forward and backward in turn
  kInterleaved1F1B,  // several chunks a rank (Narayanan et al. 2021, section 2.2)
  kGPipe,            // all forwards, then all backwards
};

/// Plain 1F1B for one chunk a rank, interleaved for more.
constexpr ScheduleKind kind_for_chunks(int64_t chunks) {
  return chunks > 1 ? ScheduleKind::kInterleaved1F1B : ScheduleKind::k1F1B;
}

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::k1F1B;
  int64_t stages = 1;         // ranks on the pipeline axis
  int64_t chunks = 1;         // model chunks of a rank; 1 for k1F1B
  int64_t micro_batches = 1;  // of one step; any number, also below `stages`
  // Receives are posted where they stand and waited for by the computation that needs them, sends
  // are not waited for; otherwise both are waited for where they stand. Same order.
  bool overlap_p2p = false;
  // Pairs a backward with the next forward. Not for kGPipe. The warm-up is that of interleaved 1F1B
  // also for one chunk: a pair is one step, so each rank runs two micro-batches ahead of its
  // neighbour.
  bool overlap_b_f = false;

  constexpr int64_t virtual_stages() const { return stages * chunks; }
  bool operator==(const ScheduleOptions&) const = default;
};

/// The whole step of every rank, in the order in which it runs.
struct PipelineSchedule {
  ScheduleOptions options;
  std::vector<std::vector<Action>> ranks;  // [stages]
};

/// The order of every rank, one stage (p = 1) included. Both ends of every transfer stand in one
/// global order, so that even blocking sends and receives cannot deadlock; a send stands right
/// behind the computation that made it, before any other computation. A receive stands behind the
/// computation that its rank does in the same column. No transfer between chunks of one rank.
/// Throws InternalError on options that contradict each other or are not positive.
PipelineSchedule make_schedule(const ScheduleOptions& options);

/// One line a rank, "rank 0: F0@0 FS0@0 F1@0 ...", with or without transfers and weight actions.
std::string format_schedule(const PipelineSchedule& schedule, bool compute_only = false);

}  // namespace tessera
