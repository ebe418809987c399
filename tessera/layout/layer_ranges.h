#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/config/config.h"

namespace tessera {

/// Layers first to last, both included.
struct LayerRange {
  int64_t first = 0;
  int64_t last = 0;

  int64_t count() const { return last - first + 1; }
  bool operator==(const LayerRange&) const = default;
};

/// layers[stage][chunk]; chunk k of stage i is virtual stage k * stages + i, and the virtual stages
/// hold the layers in order.
using LayerPlacement = std::vector<std::vector<LayerRange>>;

/// What is wrong with entry `stage` of a list (-1: with all of it).
struct LayerProblem {
  int64_t stage = -1;
  std::string rule;
};

/// Reads "auto" or the list of ranges for `layers` layers on `stages` stages of `chunks` chunks.
/// Everything that is wrong is appended to `problems`: number of entries or ranges, form, order,
/// layers that are missing, doubled or too many; the result is then of no use.
LayerPlacement place_layers(const LayersPerStage& asked, int64_t layers, int64_t stages,
                            int64_t chunks, std::vector<LayerProblem>& problems);

/// The placement of a configuration without errors; one stage holds everything. Throws ConfigError.
LayerPlacement place_layers(const Config& config);

/// A list as even as it gets, to paste: each stage's share differs by one layer at most.
/// `layers` must be at least stages * chunks.
std::vector<std::string> balanced_layers(int64_t layers, int64_t stages, int64_t chunks);

/// Specs "n" or "a-b", strictly ascending and disjoint, below `layers`. The first problem is
/// written to `problem`; the result is then empty.
std::vector<LayerRange> parse_layer_specs(const std::vector<std::string>& specs, int64_t layers,
                                          std::string& problem);

}  // namespace tessera
