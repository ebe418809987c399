#pragma once

#include <cstdint>
#include <vector>

#include "tessera/schedule/pipeline_schedule.h"

namespace tessera {

/// What the parts of a step cost, in any unit of time.
struct ChunkCosts {
  std::vector<double> forward;   // of one micro-batch, by virtual stage
  std::vector<double> backward;  // the same, recomputation included
  double transfer = 0;           // of one message between two ranks
};

/// Every chunk alike.
ChunkCosts equal_costs(const ScheduleOptions& options, double forward, double backward,
                       double transfer = 0);

/// From layers: the forward of a virtual stage costs its number of layers, plus `embedding` on the
/// first and `head` on the last (all in units of one layer); its backward `backward_ratio` times
/// that. `layers` is by virtual stage.
ChunkCosts layer_costs(const std::vector<int64_t>& layers, double embedding, double head,
                       double backward_ratio = 2);

struct TimedAction {
  double start = 0;
  double end = 0;  // of a posted receive or send: when it stands, not when the data is there
};

struct RankTiming {
  std::vector<TimedAction> actions;  // as in the list of the rank
  double busy = 0;                   // time in forwards and backwards
  double idle = 0;                   // the rest of the step
  int64_t peak_live = 0;             // chunks; see peak_live_chunks()
};

struct Simulation {
  double makespan = 0;
  std::vector<RankTiming> ranks;

  /// Idle time over working time, all ranks together.
  double idle_over_ideal() const;

  /// Idle share of the step on one rank.
  double idle_share(int64_t rank) const { return ranks[rank].idle / makespan; }
};

/// Runs the schedule with these costs. A pair costs what its halves cost together; it needs both
/// inputs to begin and gives both outputs at its end. With options.overlap_p2p a transfer begins
/// when both ends have posted it and only the computation that needs it waits; without, both ends
/// meet and wait. Transfers of no cost with overlap_p2p give what the data alone demands.
/// Throws InternalError on a schedule that does not end (see validate_schedule).
Simulation simulate(const PipelineSchedule& schedule, const ChunkCosts& costs);

/// Most that a rank's live chunks hold at one time, where one micro-batch in virtual stage s holds
/// `size[s]` (bytes) from the begin of its forward to the end of its backward. One value a rank.
std::vector<double> peak_live_size(const PipelineSchedule& schedule,
                                   const std::vector<double>& size);

}  // namespace tessera
