#include "tessera/schedule/pipeline_schedule.h"

namespace tessera {

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
