#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "tessera/config/model_config.h"
#include "tessera/layout/initial_deviation.h"
#include "tessera/layout/model_spec.h"
#include "tessera/nn/parameter.h"

namespace tessera {

/// Makes the weights of a model, without storage, out of its model_spec: the one place where names
/// and shapes come from.
class WeightFactory {
 public:
  explicit WeightFactory(const ModelConfig& model);

  /// The parameters of `roles` in `layer` (-1: outside the layers), stacked in this order, in the
  /// compute type of the first. None of them in the model: an absent weight. Throws InternalError
  /// when only some are there.
  Weight make(int64_t layer, const std::vector<ParamRole>& roles) const;

  /// The routed experts' parameters of `roles` in `layer`, stacked: parts [experts, out, in] named
  /// with "{e}" for the expert. None of them in the model: an absent weight.
  Weight make_experts(int64_t layer, const std::vector<ParamRole>& roles) const;

  /// The norm called `name` (without ".weight"; in a layer relative to it), in the type of norms.
  Weight make_norm(int64_t layer, std::string_view name) const;

  /// A and B of the adapter of `matrix`, a part of a weight in `layer`; nothing: it has none.
  struct AdapterParts {
    ParameterPart a, b;
  };
  std::optional<AdapterParts> adapter(int64_t layer, const ParameterPart& matrix) const;

  /// Rows of each of `roles`.
  std::vector<int64_t> rows(int64_t layer, const std::vector<ParamRole>& roles) const;

  bool has(int64_t layer, ParamRole role) const;

 private:
  const ParamSpec* find(int64_t layer, ParamRole role) const;
  ParameterPart part(const ParamSpec& spec) const;

  const ModelConfig& model_;
  InitialDeviation deviation_;
  std::map<int64_t, std::vector<ParamSpec>> specs_;    // by layer, without experts
  std::map<int64_t, std::vector<ParamSpec>> experts_;  // by layer, expert 0 of each
};

}  // namespace tessera
