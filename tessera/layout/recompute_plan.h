#pragma once

#include <cstdint>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/layout/layer_modules.h"

namespace tessera {

/// What runs again in the backward pass instead of being kept.
class RecomputePlan {
 public:
  /// The plan of a configuration without errors. Throws ConfigError.
  explicit RecomputePlan(const Config& config);

  /// The layer as a whole.
  bool whole(int64_t layer) const { return layers_.contains(layer); }
  /// One of its sub-modules: a pattern given for this layer matches one of its names in full. Never
  /// in a layer that is recomputed as a whole, nor a module that is to be kept.
  bool selects(int64_t layer, LayerModule module) const;
  /// A sub-module of what runs again, which does not run again itself: its results and what its
  /// backward needs are kept. Outer ones only: not inside another that is kept.
  bool keeps(int64_t layer, LayerModule module) const;

 private:
  struct Selection {
    std::regex pattern;
    std::set<int64_t> layers;
  };
  bool matches(const std::vector<Selection>& selections, int64_t layer, LayerModule module) const;
  bool runs_again(int64_t layer, LayerModule module) const;

  LayerDesign design_;
  std::set<int64_t> layers_;
  std::vector<Selection> selections_;
  std::vector<Selection> exclusions_;
};

/// What is wrong with `pattern` for `layers`: no regular expression, or no sub-module of theirs is
/// called so. Empty: nothing.
std::string pattern_problem(const std::string& pattern, const ModelConfig& model,
                            const std::set<int64_t>& layers);

/// The layers that specs "n" or "a-b" without errors name. Throws ConfigError.
std::set<int64_t> layers_of(const std::vector<std::string>& specs, const ModelConfig& model);

}  // namespace tessera
