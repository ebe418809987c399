#include "tessera/checkpoint/hf_load.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tessera/base/error.h"
#include "tessera/checkpoint/name_lists.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr std::string_view kPrefix = "model.";

std::set<std::string> files_of_index(const fs::path& index) {
  nlohmann::json root;
  try {
    std::ifstream in(index);
    root = nlohmann::json::parse(in);
  } catch (const std::exception& error) {
    throw CheckpointError(index.string() + ": " + error.what());
  }
  const auto map = root.is_object() ? root.find("weight_map") : root.end();
  if (!root.is_object() || map == root.end() || !map->is_object() || map->empty()) {
    throw CheckpointError(index.string() + ": no weight_map");
  }
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || fs::path(name).filename() != name) {
      throw CheckpointError(index.string() + ": weight_map names no file for '" + tensor + "'");
    }
    names.insert(name);
  }
  return names;
}

// What weights are kept in; others are quantised and mean nothing without their scales.
bool is_weight_type(at::ScalarType type) {
  return type == at::kDouble || type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
}

// "model.layers.61." of a name that begins so, else empty.
std::string layer_prefix(const std::string& name) {
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return "";
  const size_t dot = name.find('.', kLayers.size());
  return dot == std::string::npos ? "" : name.substr(0, dot + 1);
}

}  // namespace

bool is_hf_folder(const fs::path& folder) {
  return fs::exists(folder / kSingle) || fs::exists(folder / kIndex);
}

HfWeights::HfWeights(const fs::path& folder, const std::vector<ParamSpec>& model) {
  open_files(folder);
  compare(folder, model);
}

std::vector<fs::path> hf_weight_files(const fs::path& folder) {
  if (fs::exists(folder / kSingle)) return {folder / kSingle};
  if (!fs::exists(folder / kIndex)) {
    throw CheckpointError(folder.string() + ": neither " + kSingle + " nor " + kIndex +
                          " is there");
  }
  std::vector<fs::path> paths;
  for (const std::string& name : files_of_index(folder / kIndex)) paths.push_back(folder / name);
  return paths;
}

void HfWeights::open_files(const fs::path& folder) {
  for (const fs::path& path : hf_weight_files(folder)) {
    files_.emplace_back(path);
    for (const auto& [name, entry] : files_.back().entries()) {
      const auto [found, added] = stored_.emplace(name, Place{files_.size() - 1, name, {}, 0});
      if (!added) {
        throw CheckpointError(path.string() + ": '" + name + "' is also in " +
                              files_[found->second.file].path().string());
      }
    }
  }
}

const HfWeights::Place* HfWeights::find_stored(const std::string& name) const {
  auto found = stored_.find(name);
  if (found == stored_.end() && name.starts_with(kPrefix)) {
    found = stored_.find(name.substr(kPrefix.size()));
  }
  return found == stored_.end() ? nullptr : &found->second;
}

// "<base>.experts.<e>.gate_proj.weight" out of "<base>.experts.gate_up_proj" and the like.
bool HfWeights::place_stacked_expert(const ParamSpec& spec) {
  const std::string marker = ".experts." + std::to_string(spec.expert) + ".";
  const size_t at = spec.name.find(marker);
  if (spec.expert < 0 || at == std::string::npos) return false;
  const std::string kind = spec.name.substr(at + marker.size());
  const bool down = kind == "down_proj.weight";
  const Place* stack =
      find_stored(spec.name.substr(0, at) + ".experts." + (down ? "down_proj" : "gate_up_proj"));
  if (!stack) return false;
  const std::vector<int64_t>& shape = files_[stack->file].entry(stack->stored_name).shape;
  const int64_t rows = spec.shape[0] * (down ? 1 : 2);
  if (shape.size() != 3 || spec.expert >= shape[0] || shape[1] != rows ||
      shape[2] != spec.shape[1]) {
    return false;
  }
  Place place = *stack;
  place.prefix = {spec.expert};
  place.first_row = kind == "up_proj.weight" ? spec.shape[0] : 0;
  places_[spec.name] = place;
  return true;
}

// Layers of multi-token prediction that the model does without: they join two rows to one.
std::set<std::string> HfWeights::prediction_layers(const std::vector<ParamSpec>& model) const {
  std::set<std::string> layers;
  for (const auto& [name, place] : stored_) {
    if (name.ends_with(".eh_proj.weight")) layers.insert(layer_prefix(name));
  }
  for (const ParamSpec& spec : model) layers.erase(layer_prefix(spec.name));
  layers.erase("");
  return layers;
}

void HfWeights::compare(const fs::path& folder, const std::vector<ParamSpec>& model) {
  std::vector<std::string> missing, surplus, misshapen, untied, mistyped;
  std::set<std::string> used;
  for (const ParamSpec& spec : model) {
    const Place* stored = find_stored(spec.name);
    if (!spec.tied_to.empty()) {
      if (stored) used.insert(stored->stored_name);
      continue;
    }
    if (!stored) {
      if (place_stacked_expert(spec)) {
        used.insert(places_[spec.name].stored_name);
      } else {
        missing.push_back(spec.name);
      }
      continue;
    }
    used.insert(stored->stored_name);
    places_[spec.name] = *stored;
    const std::vector<int64_t>& shape = files_[stored->file].entry(stored->stored_name).shape;
    if (shape != spec.shape) {
      misshapen.push_back(spec.name + " is " + shape_text(shape) + ", the model has " +
                          shape_text(spec.shape));
    }
  }
  for (const std::string& name : used) {
    const SafetensorsEntry& entry = files_[stored_.at(name).file].entry(name);
    if (!is_weight_type(entry.dtype)) {
      mistyped.push_back(name + " is " + std::string(*safetensors_name(entry.dtype)));
    }
  }
  const std::set<std::string> left_out = prediction_layers(model);
  for (const auto& [name, place] : stored_) {
    if (left_out.contains(layer_prefix(name))) continue;
    if (!used.contains(name) && !name.ends_with("rotary_emb.inv_freq")) surplus.push_back(name);
  }
  for (const ParamSpec& spec : model) {
    const auto target = places_.find(spec.tied_to);
    if (spec.tied_to.empty() || target == places_.end() || !misshapen.empty()) continue;
    const Place* stored = find_stored(spec.name);
    if (stored && !equal(*stored, target->second, spec.shape)) {
      untied.push_back(spec.name + " differs from " + spec.tied_to);
    }
    places_[spec.name] = target->second;
  }
  std::string report;
  list_names(report, "missing", missing);
  list_names(report, "not in the model", surplus);
  list_names(report, "of another shape", misshapen);
  list_names(report, "neither F64, F32, F16 nor BF16", mistyped);
  list_names(report, "tied in the model, but", untied);
  if (!report.empty()) {
    throw CheckpointError(folder.string() + ": the weights do not fit the model:" + report);
  }
}

bool HfWeights::equal(const Place& a, const Place& b, const std::vector<int64_t>& shape) const {
  if (files_[a.file].entry(a.stored_name).shape != shape) return false;
  constexpr int64_t kElements = 1 << 22;
  const int64_t step = std::max<int64_t>(1, kElements / std::max<int64_t>(1, shape[1]));
  for (int64_t row = 0; row < shape[0]; row += step) {
    const Box box{{row, 0}, {std::min(step, shape[0] - row), shape[1]}};
    if (!at::equal(read_place(a, box).to(at::kDouble), read_place(b, box).to(at::kDouble))) {
      return false;
    }
  }
  return true;
}

at::Tensor HfWeights::read_place(const Place& place, const Box& box) const {
  Box stored;
  stored.offsets = place.prefix;
  stored.sizes.assign(place.prefix.size(), 1);
  stored.offsets.insert(stored.offsets.end(), box.offsets.begin(), box.offsets.end());
  stored.sizes.insert(stored.sizes.end(), box.sizes.begin(), box.sizes.end());
  if (!box.offsets.empty()) stored.offsets[place.prefix.size()] += place.first_row;
  return files_[place.file].read_box(place.stored_name, stored).reshape(box.sizes);
}

at::Tensor HfWeights::read_box(const std::string& name, const Box& box,
                               at::ScalarType dtype) const {
  if (name.find("{e}") != std::string::npos) {
    at::Tensor out = at::empty(box.sizes, at::TensorOptions().dtype(dtype));
    const Box inner{{box.offsets.begin() + 1, box.offsets.end()},
                    {box.sizes.begin() + 1, box.sizes.end()}};
    for (int64_t i = 0; i < box.sizes[0]; ++i) {
      out[i].copy_(read_box(with_expert(name, box.offsets[0] + i), inner, dtype));
    }
    return out;
  }
  const auto place = places_.find(name);
  TESSERA_CHECK(place != places_.end(), name, " is not a parameter of the model");
  return read_place(place->second, box).to(dtype);
}

}  // namespace tessera
