#pragma once

// Weights of a published model: a folder in Hugging Face's form.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tessera/base/box.h"
#include "tessera/checkpoint/safetensors.h"
#include "tessera/layout/model_spec.h"

namespace tessera {

/// The weights of a folder with model.safetensors, or with model.safetensors.index.json and its
/// shards. Opening it compares it with the model; parts are then read by name and box, only their
/// bytes. Reading is safe from several threads.
class HfWeights {
 public:
  /// Throws CheckpointError with everything that does not fit at once: parameters that are missing,
  /// tensors that the model does not have, shapes that differ, a tied head that is there and not
  /// equal to the embedding. Tolerated: names without the leading "model.", experts stacked in one
  /// tensor a layer (`experts.gate_up_proj` [E, 2 F, H], `experts.down_proj` [E, H, F]), rotary
  /// frequencies (they are computed), layers of multi-token prediction that the model goes without.
  HfWeights(const std::filesystem::path& folder, const std::vector<ParamSpec>& model);

  /// The part in `box` of parameter `name` (a tied name reads what it is tied to), cast to `dtype`.
  /// A name with "{e}" for the expert is the stack of the experts' parameters: its box has the
  /// expert as first dimension.
  at::Tensor read_box(const std::string& name, const Box& box, at::ScalarType dtype) const;

 private:
  struct Place {  // where a parameter lies
    size_t file = 0;
    std::string stored_name;
    std::vector<int64_t> prefix;  // indices in front of its own dimensions
    int64_t first_row = 0;
  };

  void open_files(const std::filesystem::path& folder);
  const Place* find_stored(const std::string& name) const;
  bool place_stacked_expert(const ParamSpec& spec);
  std::set<std::string> prediction_layers(const std::vector<ParamSpec>& model) const;
  void compare(const std::filesystem::path& folder, const std::vector<ParamSpec>& model);
  bool equal(const Place& a, const Place& b, const std::vector<int64_t>& shape) const;
  at::Tensor read_place(const Place& place, const Box& box) const;

  std::vector<SafetensorsFile> files_;
  std::map<std::string, Place> stored_;  // by the name in the files
  std::map<std::string, Place> places_;  // by the name of the parameter
};

/// Whether `folder` holds weights in Hugging Face's form.
bool is_hf_folder(const std::filesystem::path& folder);

/// The files that hold them. Throws CheckpointError when there are none or the index is damaged.
std::vector<std::filesystem::path> hf_weight_files(const std::filesystem::path& folder);

}  // namespace tessera
