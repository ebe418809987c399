#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tessera/nn/layer_context.h"

namespace tessera {

/// Which elements survive: 1 with probability 1 - p, else 0; [T, features] bool. Depends on (seed,
/// step, site, sample, place in the sample, feature) alone, so it is the same in every layout and
/// when a layer is computed again. sample_ids and in_sample [T] int64; `site` numbers the places of
/// the model where something is dropped.
at::Tensor dropout_keep_mask(uint64_t seed, int64_t step, int64_t site, double p,
                             const at::Tensor& sample_ids, const at::Tensor& in_sample,
                             int64_t features, int64_t first_feature = 0);

/// x / (1 - p) where kept, else 0. x [residual tokens, H]; the mask is made again in the backward
/// pass instead of being kept. p = 0 returns x.
at::Tensor dropout(const at::Tensor& x_TH, double p, int64_t site, const LayerContext& context);

/// The same for columns [first_feature, first_feature + C) of all tokens of this rank, or of the
/// residual tokens: x [T, C].
at::Tensor dropout_of_columns(const at::Tensor& x_TC, double p, int64_t site,
                              const LayerContext& context, int64_t first_feature);

}  // namespace tessera
