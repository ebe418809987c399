#pragma once

// Where the weights of a published model lie: a folder in Hugging Face's form. Headers only.

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tessera/layout/model_spec.h"
#include "tessera/storage/safetensors_header.h"

namespace tessera {

/// Whether `folder` holds weights in Hugging Face's form.
bool holds_published_weights(const std::filesystem::path& folder);

/// Whether `folder` holds low-rank adapters in PEFT's form, without the model that they adapt.
bool holds_adapters(const std::filesystem::path& folder);

/// What PEFT names differently: a weight's name in the file of an adapter.
inline constexpr const char* kAdapterWeights = "adapter_model.safetensors";
inline constexpr const char* kAdapterConfig = "adapter_config.json";
inline constexpr const char* kAdapterPrefix = "base_model.model.";

/// The files that hold them. Throws CheckpointError when there are none, the index is damaged, or
/// files that it names are not there (all of them are named).
std::vector<std::filesystem::path> published_weight_files(const std::filesystem::path& folder);

/// The parameters of a model in the files of a folder.
///
/// Of a folder with adapters `model` is the adapters alone (WeightRows::kAdapters).
///
/// Stacks of the family (ParamSpec::stack) are looked for first; transposed ones of experts may be
/// there in MXFP4 (storage/mxfp4.h). Tolerated: names without the
/// leading "model.", experts stacked in one tensor a layer
/// (`experts.gate_up_proj` [E, 2 F, H], `experts.down_proj` [E, H, F]), rotary frequencies (they
/// are computed), layers of multi-token prediction that the model goes without.
class PublishedWeights {
 public:
  struct Place {  // where a parameter lies
    size_t file = 0;
    std::string stored_name;
    std::vector<int64_t> prefix;  // indices in front of its own dimensions
    int64_t first_row = 0;        // see StackPlace
    int64_t row_step = 1;
    bool transposed = false;
    std::string scales{};  // in MXFP4: stored_name is the blocks, this the scales; else empty
    size_t scales_file = 0;
  };

  /// Reads the headers. Throws CheckpointError that names a damaged file, or a tensor that two
  /// files hold.
  PublishedWeights(const std::filesystem::path& folder, const std::vector<ParamSpec>& model);

  const std::vector<SafetensorsHeaderFile>& files() const { return files_; }
  const SafetensorsEntry& entry(const Place& place) const;

  /// By the name of the parameter; of a tied one only when it is stored as well.
  const std::map<std::string, Place>& places() const { return places_; }

  /// All in which the folder does not fit the model: parameters that are missing, tensors that the
  /// model does not have, shapes that differ, types that are none of weights. Empty: it fits.
  std::string problem() const;

  /// What is there and not used, in one line; empty: nothing.
  std::string unused() const;

 private:
  void read_headers(const std::filesystem::path& folder);
  const Place* find_stored(const std::string& name) const;
  bool place_in_stack(const ParamSpec& spec);
  bool place_packed(const ParamSpec& spec);
  void expect_shape(const Place& place, const std::vector<int64_t>& shape);
  bool place_stacked_expert(const ParamSpec& spec);
  void place(const ParamSpec& spec);
  void look_at_the_rest(const std::vector<ParamSpec>& model);

  std::vector<SafetensorsHeaderFile> files_;
  std::map<std::string, Place> stored_;  // by the name in the files
  std::map<std::string, Place> places_;
  std::set<std::string> used_;    // names in the files
  std::set<std::string> packed_;  // of these the blocks and scales of MXFP4
  std::vector<std::string> missing_, surplus_, misshapen_, mistyped_, unpacked_;
  std::set<std::string> missing_names_;
  std::set<std::string> left_out_;  // "model.layers.61."
  size_t left_out_tensors_ = 0;
};

}  // namespace tessera
