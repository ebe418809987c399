#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/schedule/pipeline_schedule.h"

namespace tessera {

/// What is wrong, if anything.
using Problem = std::optional<std::string>;

/// Walks the list of one rank and knows what is there, what was used and what is still owed.
class RankWalk {
 public:
  RankWalk(const ScheduleOptions& options, int64_t rank);

  /// Does `a` next, or says why it cannot be done.
  Problem step(const Action& a);

  /// What the list left out.
  Problem at_end() const;

 private:
  Problem run_forward(const Pass& p);
  Problem run_backward(const Pass& p);
  Problem run_transfer(const Action& a);
  Problem check_fields(const Pass& p) const;
  int64_t index(const Pass& p) const { return p.chunk * o_.micro_batches + p.micro_batch; }

  ScheduleOptions o_;
  int64_t rank_;
  int64_t live_ = 0;
  // By chunk, then micro-batch.
  std::vector<bool> forward_done_, backward_done_;
  std::vector<bool> input_received_, gradient_received_, forward_sent_, backward_sent_;
};

}  // namespace tessera
