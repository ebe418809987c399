#pragma once

// The reference runs: models, first batches, gradients.

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tessera/config/model_config.h"
#include "tessera/models/decoder.h"
#include "tests/support/context_with_step.h"

namespace tessera {

struct ReferenceCase {
  std::filesystem::path folder;
  ModelConfig model;  // everything in float64
};

/// Reads model/config.json.
ReferenceCase open_case(const std::string& name);

/// Binds every weight of the decoder to a fresh leaf with the case's values; returns them in the
/// order of the units.
std::vector<Weight*> bind_case_weights(Decoder& decoder, const ReferenceCase& reference);

/// The global batch of an update (from 0) as one micro-batch (contexts without rotary tables).
test::ContextWithStep global_batch(const ReferenceCase& reference, int64_t update);

/// Rows [begin, end) of a batch, as another micro-batch of the same global batch.
LayerContext rows_of(const LayerContext& batch, int64_t begin, int64_t end);

struct ExpectedGradient {
  std::string name;
  double norm = 0;
  double sum = 0;
  std::vector<double> first;
};

std::vector<ExpectedGradient> expected_gradients(const ReferenceCase& reference);
double expected_first_loss(const ReferenceCase& reference);

}  // namespace tessera
