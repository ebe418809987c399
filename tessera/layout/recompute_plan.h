#pragma once

#include <cstdint>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/layout/model_spec.h"

namespace tessera {

/// Names by which the sub-modules of a decoder layer can be addressed, relative to the layer:
/// MindFormers' ("self_attention.linear_qkv") and Hugging Face's ("self_attn.q_proj").
/// `model` is all of model_spec(); layers for multi-token prediction follow the decoder's.
std::vector<std::string> module_names(const std::vector<ParamSpec>& model, int64_t layer);

/// What runs again in the backward pass instead of being kept.
class RecomputePlan {
 public:
  /// The plan of a configuration without errors. Throws ConfigError.
  explicit RecomputePlan(const Config& config);

  /// The layer as a whole.
  bool whole(int64_t layer) const { return layers_.contains(layer); }
  /// One of its sub-modules, which goes by any of `names`: a pattern given for this layer matches
  /// one of them in full. Never in a layer that is recomputed as a whole.
  bool selects(int64_t layer, const std::vector<std::string>& names) const;

 private:
  struct Selection {
    std::regex pattern;
    std::set<int64_t> layers;
  };
  std::set<int64_t> layers_;
  std::vector<Selection> selections_;
};

/// What is wrong with `pattern` for `layers`: no regular expression, or no sub-module of theirs is
/// called so. Empty: nothing.
std::string pattern_problem(const std::string& pattern, const std::vector<ParamSpec>& model,
                            const std::set<int64_t>& layers);

/// The layers that specs "n" or "a-b" without errors name. Throws ConfigError.
std::set<int64_t> layers_of(const std::vector<std::string>& specs, const ModelConfig& model);

}  // namespace tessera
