#include "tessera/checkpoint/replica_text.h"

#include "tessera/base/error.h"

namespace tessera {

std::string replica_text(const std::vector<ReplicaDifference>& differences) {
  if (differences.empty()) return "";
  const ReplicaDifference& first = differences.front();
  std::string ranks;
  for (const int rank : first.ranks) ranks.append(" ").append(std::to_string(rank));
  return detail::concat("the copies of ", first.name, " along ", axis_name(first.axis),
                        " differ (ranks", ranks,
                        "); parameters whose copies differ: ", differences.size());
}

}  // namespace tessera
