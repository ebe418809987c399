#pragma once

// One way to cut a run over ranks: what a search chooses.

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/planner/model_units.h"

namespace tessera {

enum class RecomputeChoice { kNone, kHalf, kAll };  // kHalf: every second layer

struct LayoutChoice {
  int64_t world = 1;
  int64_t pp = 1;
  int64_t chunks = 1;
  int64_t tp = 1;
  int64_t cp = 1;
  std::string method = "colossal";
  int64_t ulysses = 1;  // degree of hybrid
  int64_t ep = 1;
  bool by_node = false;  // alltoall_deredundancy
  int64_t dp_shard = 1;
  int64_t local_batch = 1;
  RecomputeChoice recompute = RecomputeChoice::kNone;
  std::string reshard = "default";
  bool light_ends = false;  // fewer layers where embedding and head are; else as even as it gets

  int64_t data_parallel() const { return world / (pp * tp * cp); }
  int64_t dp_replicate() const { return data_parallel() / dp_shard; }
  bool operator==(const LayoutChoice&) const = default;
};

/// `config` with that layout. `head_layers`: layers of a stage that the head is worth, of
/// light_ends. `node_ranks` 0: npu_nums_per_device stays.
Config with_layout(const Config& config, const LayoutChoice& choice, double head_layers,
                   int64_t node_ranks);

/// Layers of the model that its head is worth. `units`: model_units of it.
double head_layers(const ModelConfig& model, const std::vector<ModelUnit>& units);

/// "dp_replicate 2 x dp_shard 8 x tp 4 x pp 2 (2 chunks), local batch 1, recompute all, ...":
/// degrees of 1 and defaults are left out.
std::string to_text(const LayoutChoice& choice);

}  // namespace tessera
