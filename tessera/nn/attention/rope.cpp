#include "tessera/nn/attention/rope.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tessera/base/error.h"
#include "tessera/nn/scalar_type.h"

namespace tessera {

namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

int64_t original_length(const RopeScaling& scaling) {
  if (!scaling.original_max_position_embeddings) {
    throw ConfigError("model.rope_scaling: rope_type '" + scaling.rope_type +
                      "' needs original_max_position_embeddings");
  }
  return *scaling.original_max_position_embeddings;
}

// Llama 3.1's frequency scaling: long wavelengths are divided by factor, short ones are kept, those
// between are interpolated.
void scale_llama3(std::vector<double>& inv_freq, const RopeScaling& scaling) {
  const double length = static_cast<double>(original_length(scaling));
  const double low = length / scaling.low_freq_factor;
  const double high = length / scaling.high_freq_factor;
  for (double& frequency : inv_freq) {
    const double wavelength = kTwoPi / frequency;
    if (wavelength < high) continue;
    if (wavelength > low) {
      frequency /= scaling.factor;
      continue;
    }
    const double smooth = (length / wavelength - scaling.low_freq_factor) /
                          (scaling.high_freq_factor - scaling.low_freq_factor);
    frequency = (1 - smooth) * frequency / scaling.factor + smooth * frequency;
  }
}

double yarn_mscale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

// YaRN (arXiv 2309.00071): "NTK by parts", interpolated over a ramp of dimensions.
void scale_yarn(std::vector<double>& inv_freq, double base, const RopeScaling& scaling) {
  const auto dim = static_cast<double>(2 * inv_freq.size());
  const double length = static_cast<double>(original_length(scaling));
  const auto dimension_of = [&](double rotations) {
    return dim * std::log(length / (rotations * kTwoPi)) / (2 * std::log(base));
  };
  double low = dimension_of(scaling.beta_fast);
  double high = dimension_of(scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    inv_freq[i] = inv_freq[i] / scaling.factor * ramp + inv_freq[i] * (1 - ramp);
  }
}

double yarn_amplitude(const RopeScaling& scaling) {
  if (scaling.attention_factor) return *scaling.attention_factor;
  if (scaling.mscale.value_or(0) != 0 && scaling.mscale_all_dim.value_or(0) != 0) {
    return yarn_mscale(scaling.factor, *scaling.mscale) /
           yarn_mscale(scaling.factor, *scaling.mscale_all_dim);
  }
  return yarn_mscale(scaling.factor, 1.0);
}

// MindFormers spells YaRN as position_embedding_type with its numbers beside it.
RopeScaling resolved_scaling(const ModelConfig& model) {
  RopeScaling scaling = model.rope_scaling;
  if (model.position_embedding_type != "yarn" || scaling.rope_type != "default") return scaling;
  scaling.rope_type = "yarn";
  if (model.rotary_scaling_factor) scaling.factor = *model.rotary_scaling_factor;
  if (model.mscale) scaling.mscale = model.mscale;
  if (model.mscale_all_dim) scaling.mscale_all_dim = model.mscale_all_dim;
  if (model.beta_fast) scaling.beta_fast = *model.beta_fast;
  if (model.beta_slow) scaling.beta_slow = *model.beta_slow;
  if (!scaling.original_max_position_embeddings) {
    scaling.original_max_position_embeddings = model.max_position_embeddings;
  }
  return scaling;
}

// transformers' dynamic NTK scaling: a larger base for sequences beyond the model's length. Its
// length is an integer tensor there, so each step is rounded to float32.
double dynamic_base(const ModelConfig& model, double dim) {
  if (model.seq_length <= model.max_position_embeddings) return model.rope_theta;
  const auto rounded = [](double x) { return static_cast<double>(static_cast<float>(x)); };
  const double factor = model.rope_scaling.factor;
  const double times = rounded(rounded(factor * static_cast<double>(model.seq_length)) /
                               static_cast<double>(model.max_position_embeddings));
  const double grown = rounded(std::pow(rounded(times - (factor - 1)), dim / (dim - 2)));
  return rounded(model.rope_theta * grown);
}

int64_t longrope_length(const ModelConfig& model) {
  const auto& inner = model.rope_scaling.original_max_position_embeddings;
  if (inner) return *inner;
  if (model.original_max_position_embeddings) return *model.original_max_position_embeddings;
  throw ConfigError(
      "model.rope_scaling: rope_type 'longrope' needs original_max_position_embeddings");
}

// LongRoPE (Ding et al. 2024, arXiv 2402.13753) as Phi-3 has it: a factor for each pair, and one on
// cos and sin.
void scale_longrope(Rope& rope, const ModelConfig& model) {
  const RopeScaling& scaling = model.rope_scaling;
  const int64_t length = longrope_length(model);
  const auto& factors = model.seq_length > length ? scaling.long_factor : scaling.short_factor;
  if (factors.size() != rope.inv_freq.size()) {
    throw ConfigError("model.rope_scaling: short_factor and long_factor need " +
                      std::to_string(rope.inv_freq.size()) + " numbers each");
  }
  for (size_t i = 0; i < factors.size(); ++i) rope.inv_freq[i] /= factors[i];
  const double factor =
      static_cast<double>(model.max_position_embeddings) / static_cast<double>(length);
  const double plain =
      factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(length)));
  rope.amplitude = scaling.attention_factor.value_or(plain);
}

Rope plain_rope(const ModelConfig& model, double base, int64_t rotary_dim) {
  TESSERA_CHECK(rotary_dim > 0 && rotary_dim % 2 == 0, "rotary dimensions: ", rotary_dim);
  Rope rope;
  rope.dtype = scalar_type(model.rotary_dtype);
  rope.inv_freq.resize(static_cast<size_t>(rotary_dim / 2));
  for (size_t i = 0; i < rope.inv_freq.size(); ++i) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(rotary_dim);
    rope.inv_freq[i] = 1.0 / std::pow(base, exponent);
  }
  return rope;
}

}  // namespace

Rope make_rope(const ModelConfig& model, int64_t rotary_dim) {
  const RopeScaling scaling = resolved_scaling(model);
  const bool is_dynamic = scaling.rope_type == "dynamic";
  Rope rope = plain_rope(
      model, is_dynamic ? dynamic_base(model, static_cast<double>(rotary_dim)) : model.rope_theta,
      rotary_dim);
  if (scaling.rope_type == "linear") {
    for (double& frequency : rope.inv_freq) frequency /= scaling.factor;
  } else if (scaling.rope_type == "llama3") {
    scale_llama3(rope.inv_freq, scaling);
  } else if (scaling.rope_type == "yarn") {
    scale_yarn(rope.inv_freq, model.rope_theta, scaling);
    rope.amplitude = yarn_amplitude(scaling);
  } else if (scaling.rope_type == "longrope") {
    scale_longrope(rope, model);
  } else if (scaling.rope_type != "default" && !is_dynamic) {
    throw ConfigError("model.rope_scaling.rope_type: '" + scaling.rope_type +
                      "' is not one of default, linear, dynamic, llama3, yarn, longrope");
  }
  return rope;
}

std::optional<Rope> make_window_rope(const ModelConfig& model, int64_t rotary_dim) {
  const bool is_plain =
      model.design().plain_window_rope && model.rope_scaling.rope_type != "default";
  if (!model.rope_local_base_freq && !is_plain) return std::nullopt;
  return plain_rope(model, model.rope_local_base_freq.value_or(model.rope_theta), rotary_dim);
}

std::pair<at::Tensor, at::Tensor> Rope::tables(const at::Tensor& positions_T) const {
  const at::NoGradGuard no_grad;
  const auto options = at::TensorOptions().dtype(at::kDouble);
  const at::Tensor frequencies = at::from_blob(const_cast<double*>(inv_freq.data()),
                                               {static_cast<int64_t>(inv_freq.size())}, options)
                                     .to(positions_T.device());
  const at::Tensor angles = positions_T.to(at::kDouble).unsqueeze(1) * frequencies.unsqueeze(0);
  return {(angles.cos() * amplitude).to(dtype), (angles.sin() * amplitude).to(dtype)};
}

}  // namespace tessera
