#pragma once

// Where an export reads weights: a checkpoint, a published folder, or a base with its adapters
// added.

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>

#include "tessera/base/box.h"
#include "tessera/checkpoint/checkpoint_reader.h"
#include "tessera/checkpoint/hf_load.h"
#include "tessera/config/model_config.h"
#include "tessera/layout/model_spec.h"
#include "tessera/storage/element_type.h"

namespace tessera {

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  /// Of the parameter as it lies there.
  virtual ElementType type(const ParamSpec& spec) const = 0;
  /// The part in `box` of a parameter, in any floating-point type. Throws CheckpointError.
  virtual at::Tensor read(const ParamSpec& spec, const Box& box) = 0;
};

/// `reader` must outlive it.
std::unique_ptr<WeightSource> source_of_checkpoint(CheckpointReader& reader);

/// The weights in the folder at `path`, a published model or a checkpoint (of several the newest),
/// which must fit `model`. Throws CheckpointError.
std::unique_ptr<WeightSource> source_at(const std::filesystem::path& path,
                                        const std::vector<ParamSpec>& model);

/// W + lora_alpha / lora_rank * B A for every matrix of `model` that has an adapter, computed in
/// float64; all else as it is. W comes from `base`, A and B from `adapters`. Both must outlive it.
std::unique_ptr<WeightSource> merged_source(WeightSource& base, WeightSource& adapters,
                                            const ModelConfig& model);

}  // namespace tessera
