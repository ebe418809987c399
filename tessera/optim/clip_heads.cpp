#include "tessera/optim/clip_heads.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {
namespace {

// "model.layers.3.self_attn.q_proj.weight": 3.
std::optional<int64_t> layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "model.layers.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t layer = 0;
  const char* first = name.data() + kPrefix.size();
  const auto result = std::from_chars(first, name.data() + name.size(), layer);
  if (result.ptr == first) return std::nullopt;
  return layer;
}

// Powers of f by which the rows of a head are multiplied: those before `split`, and the others.
struct HeadRows {
  int64_t rows = 0;
  int64_t split = 0;
  double before = 0.0;
  double after = 0.0;
};

std::optional<HeadRows> rows_of(ParamRole role, const ModelConfig& m) {
  using enum ParamRole;
  const bool shares_keys = m.num_key_value_heads < m.num_attention_heads;
  switch (role) {
    case kAttnQ:
    case kAttnQBias: return HeadRows{m.head_dim, m.head_dim, shares_keys ? 1.0 : 0.5, 0.0};
    case kAttnK:
    case kAttnKBias:
      if (shares_keys) return std::nullopt;
      return HeadRows{m.head_dim, m.head_dim, 0.5, 0.0};
    case kMlaQB:
      return HeadRows{m.qk_nope_head_dim + m.qk_rope_head_dim, m.qk_nope_head_dim, 0.5, 1.0};
    case kMlaKvB: return HeadRows{m.qk_nope_head_dim + m.v_head_dim, m.qk_nope_head_dim, 0.5, 0.0};
    default: return std::nullopt;
  }
}

}  // namespace

void clip_heads(ParamTable& table, const ModelConfig& model, const at::Tensor& largest_LH,
                double threshold) {
  for (const auto& param : table.params()) {
    const auto layer = layer_of(param->name);
    const auto head = rows_of(param->role, model);
    if (!layer || !head || *layer >= largest_LH.size(0) || param->value.numel() == 0) continue;
    const at::Tensor largest_H = largest_LH[*layer].contiguous();
    const auto* largest = largest_H.const_data_ptr<double>();
    std::vector<double> factors;
    for (int64_t i = 0; i < param->box.sizes[0]; ++i) {
      const int64_t row = param->box.offsets[0] + i;
      const double f = threshold / std::max(largest[row / head->rows], threshold);
      factors.push_back(std::pow(f, row % head->rows < head->split ? head->before : head->after));
    }
    if (std::ranges::all_of(factors, [](double factor) { return factor == 1.0; })) continue;
    const at::Tensor scale = at::tensor(factors, at::kDouble).to(param->value.options());
    param->value.mul_(param->value.dim() == 2 ? scale.unsqueeze(1) : scale);
  }
}

}  // namespace tessera
