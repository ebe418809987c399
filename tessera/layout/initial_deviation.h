#pragma once

#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "tessera/config/model_config.h"

namespace tessera {

/// With which standard deviation random weights start: model.param_init_std_rules, else
/// model.initializer_range.
class InitialDeviation {
 public:
  /// Throws ConfigError for a target that is no regular expression.
  explicit InitialDeviation(const ModelConfig& model);

  /// Of the weight of this Hugging Face name, which may also go by MindFormers' in a rule.
  double of(const std::string& name) const;

 private:
  double usual_;
  std::vector<std::pair<std::regex, double>> rules_;
};

/// What is wrong with a rule: its target is no regular expression, matches no weight of the model
/// that starts random, or only some of the experts of a layer, whose weights are one tensor. Empty:
/// nothing.
std::string init_rule_problem(const InitStdRule& rule, const ModelConfig& model);

}  // namespace tessera
