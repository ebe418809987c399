#pragma once

#include <string>
#include <vector>

#include "tessera/planner/search/search.h"

namespace tessera {

/// What a run does when it has fewer ranks.
struct ElasticStep {
  int64_t left = 0;     // ranks that are there
  int64_t used = 0;     // ranks of the layout; 0: none is legal
  bool listed = false;  // it is one of elastic.layouts
  FoundLayout found;
};

/// For N, N-1, ... `least` ranks: the layout that the run would go on with (layout_of_fewer). The
/// file must be legal at N ranks; throws ConfigError.
std::vector<ElasticStep> plan_elastic(const Config& config, const Machine& machine,
                                      const SearchOptions& options, int64_t least);

std::string to_text(const std::vector<ElasticStep>& steps);

}  // namespace tessera
