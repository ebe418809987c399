#pragma once

#include <cstdint>
#include <string_view>

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

/// What the order of a pipeline's step follows from.
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

/// "1f1b", "interleaved_1f1b" (by its chunks or its warm-up), "gpipe".
constexpr std::string_view schedule_name(const ScheduleOptions& options) {
  if (options.kind == ScheduleKind::kGPipe) return "gpipe";
  const bool interleaved = options.kind == ScheduleKind::kInterleaved1F1B || options.overlap_b_f;
  return interleaved ? "interleaved_1f1b" : "1f1b";
}

}  // namespace tessera
