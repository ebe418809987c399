#pragma once

// Rotary position embedding (Su et al. 2021, arXiv 2104.09864) with the frequency scalings of the
// published models.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/config/model_config.h"
#include "tessera/nn/layer_context.h"

namespace tessera {

/// Angular frequencies of the pairs of one head. Pure arithmetic of the configuration: nothing is
/// stored on a device, nothing is loaded, so nothing can be left uninitialised.
struct Rope {
  std::vector<double> inv_freq;  // [rotary_dim / 2]
  double amplitude = 1.0;        // on cos and sin (YaRN, arXiv 2309.00071, section 3.4)
  at::ScalarType dtype = at::kFloat;

  /// {cos, sin}, [tokens, rotary_dim / 2] each, of the positions [tokens]. Angles are formed in
  /// float64.
  std::pair<at::Tensor, at::Tensor> tables(const at::Tensor& positions_T) const;
};

/// Frequencies for `rotary_dim` dimensions (even): default, linear, dynamic, llama3, yarn or
/// longrope, as transformers computes them for sequences of model.seq_length. Throws ConfigError on
/// another rope_type or where a length that it needs is missing.
Rope make_rope(const ModelConfig& model, int64_t rotary_dim);

/// Those of layers with a window where they differ: plain, with model.rope_local_base_freq if
/// given.
std::optional<Rope> make_window_rope(const ModelConfig& model, int64_t rotary_dim);

}  // namespace tessera
