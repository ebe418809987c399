#pragma once

// The layout of a run that has lost ranks: as like the one of its file as it can be.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/config/issue.h"

namespace tessera {

struct SmallerLayout {
  Config config;        // of the file, with another section parallelism
  int64_t used = 0;     // ranks of the layout; those left over are spare
  bool listed = false;  // it is one of elastic.layouts
};

/// The layout of `config`, which is legal at `world` ranks, when `left` ranks are there. tensor,
/// pipeline, context and expert parallel stay: dp_replicate shrinks first, then dp_shard, then
/// expert_parallel to a divisor. Where nothing of that is legal and fits, the first of
/// elastic.layouts that is, on as many ranks as it can use. None: no layout is. `fits`: whether a
/// legal layout has memory enough on so many ranks.
std::optional<SmallerLayout> layout_of_fewer(
    const Config& config, int64_t world, int64_t left, const Provenance& provenance,
    const std::function<bool(const Config&, int64_t used)>& fits);

/// What makes `made` of the file of `config`: "parallelism.data_parallel_shard=2", ...
std::vector<std::string> layout_overrides(const Config& config, const Config& made);

/// "dp_replicate 2 x dp_shard 4 x tp 2": degrees of 1 are left out; "one rank".
std::string layout_text(const Config& config, int64_t used);

}  // namespace tessera
