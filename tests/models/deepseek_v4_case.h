#pragma once

// A decoder of DeepSeek-V4 put together from its parts, with the weights of the reference run
// (tests/cases/deepseek_v4_64) under the names of DeepSeek's files.

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/models/decoder.h"
#include "tessera/nn/compressed/compressed_attention.h"
#include "tests/models/reference_case.h"

namespace tessera {

struct DeepseekV4Case {
  ReferenceCase reference;  // only its folder is read
  std::unique_ptr<Decoder> decoder;
  std::vector<Weight*> weights;  // bound to fresh leaves in float64
};

DeepseekV4Case open_deepseek_v4();

/// The attention of a layer.
CompressedAttention& attention_of(DecoderLayer& layer);

}  // namespace tessera
