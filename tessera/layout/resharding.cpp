#include "tessera/layout/resharding.h"

#include <string>

namespace tessera {

Resharding resharding(const Config& config, const ParallelDims& dims) {
  const std::string& asked = config.parallelism.reshard_after_forward_policy;
  const bool pipelined = dims.pp > 1;
  const bool never = asked == "never" || (asked == "default" && pipelined);
  return {never, asked != "always", never && pipelined};
}

}  // namespace tessera
