#pragma once

#include <map>
#include <memory>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/layout/layer_ranges.h"
#include "tessera/planner/machine/machine.h"
#include "tessera/planner/model_units.h"
#include "tessera/planner/search/layout_choice.h"
#include "tessera/planner/search/search.h"

namespace tessera {

/// Never more than a layout takes.
struct LayoutBound {
  double seconds = 0.0;
  double memory = 0.0;  // bytes
};

/// Bounds from sums over layers, which are made once for all layouts with the same parts. Not for
/// several threads at a time.
class LayoutBounds {
 public:
  LayoutBounds(const Config& config, const Machine& machine, const SearchOptions& options);
  ~LayoutBounds();

  LayoutBound of(const LayoutChoice& choice);
  /// Of all choices with this tp, cp and its method, local batch, ep and dispatcher; ep 0: of any
  /// experts.
  double seconds_of(const LayoutChoice& parts);

 private:
  struct Passes;
  struct Weights;
  const Passes& passes_of(const LayoutChoice& choice);
  const Weights& weights_of(const LayoutChoice& choice);
  const LayerPlacement& placement_of(const LayoutChoice& choice);

  const Config& config_;
  const Machine& machine_;
  const SearchOptions& options_;
  std::vector<ModelUnit> units_;
  double head_layers_;                                         // see with_layout
  std::map<std::vector<int64_t>, LayerPlacement> placements_;  // by pp, chunks and light ends
  std::map<std::vector<int64_t>, std::unique_ptr<Passes>> passes_;
  std::map<std::vector<int64_t>, std::unique_ptr<Weights>> weights_;
  double most_at_once_ = 1.0;  // ranks' worth of work that a host with shared cores does at a time
  double slow_ = 1.0;          // the least that a rank is slower than alone
};

}  // namespace tessera
