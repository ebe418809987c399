#pragma once

// Weights of a published model: a folder in Hugging Face's form.

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tessera/base/box.h"
#include "tessera/checkpoint/safetensors.h"
#include "tessera/storage/published_weights.h"

namespace tessera {

/// The weights of a folder with model.safetensors, or with model.safetensors.index.json and its
/// shards. Opening it compares it with the model; parts are then read by name and box, only their
/// bytes. Reading is safe from several threads.
class HfWeights {
 public:
  /// Throws CheckpointError with everything that does not fit at once (PublishedWeights says what),
  /// or a tied head that is there and not equal to the embedding.
  HfWeights(const std::filesystem::path& folder, const std::vector<ParamSpec>& model);

  /// The part in `box` of parameter `name` (a tied name reads what it is tied to), cast to `dtype`.
  /// A name with "{e}" for the expert is the stack of the experts' parameters: its box has the
  /// expert as first dimension.
  at::Tensor read_box(const std::string& name, const Box& box, at::ScalarType dtype) const;

  /// In which parameter `name` lies there; of one in MXFP4 the type in which it is read, BF16.
  ElementType type(const std::string& name) const;

 private:
  using Place = PublishedWeights::Place;

  void tie(const std::filesystem::path& folder, const std::vector<ParamSpec>& model);
  bool equal(const Place& a, const Place& b, const std::vector<int64_t>& shape) const;
  at::Tensor read_place(const Place& place, const Box& box) const;
  at::Tensor read_packed(const Place& place, const Box& box) const;

  std::vector<SafetensorsFile> files_;
  std::map<std::string, Place> places_;  // by the name of the parameter
};

}  // namespace tessera
