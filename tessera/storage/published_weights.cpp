#include "tessera/storage/published_weights.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/lfs_pointer.h"
#include "tessera/storage/mxfp4.h"
#include "tessera/storage/name_lists.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr std::string_view kPrefix = "model.";

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

std::set<std::string> files_of_index(const fs::path& index) {
  if (const std::string problem = lfs_pointer_problem(index); !problem.empty()) {
    throw CheckpointError(index.string() + ": " + problem);
  }
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

// "model.layers.61." of a name that begins so, else empty.
std::string layer_of(const std::string& name) {
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return "";
  const size_t dot = name.find('.', kLayers.size());
  return dot == std::string::npos ? "" : name.substr(0, dot + 1);
}

}  // namespace

bool holds_adapters(const fs::path& folder) {
  return is_there(folder / kAdapterWeights) && !holds_published_weights(folder);
}

bool holds_published_weights(const fs::path& folder) {
  return is_there(folder / kSingle) || is_there(folder / kIndex);
}

std::vector<fs::path> published_weight_files(const fs::path& folder) {
  if (is_there(folder / kSingle)) return {folder / kSingle};
  if (holds_adapters(folder)) return {folder / kAdapterWeights};
  if (!is_there(folder / kIndex)) {
    throw CheckpointError(folder.string() + ": neither " + kSingle + " nor " + kIndex +
                          " is there");
  }
  std::vector<fs::path> paths;
  std::vector<std::string> missing;
  for (const std::string& name : files_of_index(folder / kIndex)) {
    paths.push_back(folder / name);
    if (!is_there(paths.back())) missing.push_back(name);
  }
  std::string report;
  list_names(report, "not there", missing);
  if (!report.empty()) {
    throw CheckpointError((folder / kIndex).string() + ": names " + std::to_string(paths.size()) +
                          " files of weights:" + report);
  }
  return paths;
}

PublishedWeights::PublishedWeights(const fs::path& folder, const std::vector<ParamSpec>& model) {
  read_headers(folder);
  for (const ParamSpec& spec : model) place(spec);
  look_at_the_rest(model);
}

const SafetensorsEntry& PublishedWeights::entry(const Place& place) const {
  return files_[place.file].entries.at(place.stored_name);
}

void PublishedWeights::read_headers(const fs::path& folder) {
  for (const fs::path& path : published_weight_files(folder)) {
    files_.push_back(read_safetensors_header(path));
    for (const auto& [name, entry] : files_.back().entries) {
      const auto [found, added] = stored_.emplace(name, Place{files_.size() - 1, name, {}});
      if (!added) {
        throw CheckpointError(path.string() + ": '" + name + "' is also in " +
                              files_[found->second.file].path.string());
      }
    }
  }
}

const PublishedWeights::Place* PublishedWeights::find_stored(const std::string& name) const {
  auto found = stored_.find(name);
  if (found == stored_.end() && name.starts_with(kPrefix)) {
    found = stored_.find(name.substr(kPrefix.size()));
  }
  if (found == stored_.end()) found = stored_.find(kAdapterPrefix + name);
  return found == stored_.end() ? nullptr : &found->second;
}

// "<base>.experts.<e>.gate_proj.weight" out of "<base>.experts.gate_up_proj" and the like.
bool PublishedWeights::place_stacked_expert(const ParamSpec& spec) {
  const std::string marker = ".experts." + std::to_string(spec.expert) + ".";
  const size_t at = spec.name.find(marker);
  if (spec.expert < 0 || at == std::string::npos) return false;
  const std::string kind = spec.name.substr(at + marker.size());
  const bool down = kind == "down_proj.weight";
  const Place* stack =
      find_stored(spec.name.substr(0, at) + ".experts." + (down ? "down_proj" : "gate_up_proj"));
  if (!stack) return false;
  const std::vector<int64_t>& shape = entry(*stack).shape;
  const int64_t rows = spec.shape[0] * (down ? 1 : 2);
  if (shape.size() != 3 || spec.expert >= shape[0] || shape[1] != rows ||
      shape[2] != spec.shape[1]) {
    return false;
  }
  Place place = *stack;
  place.prefix = {spec.expert};
  place.first_row = kind == "up_proj.weight" ? spec.shape[0] : 0;
  used_.insert(place.stored_name);
  places_[spec.name] = std::move(place);
  return true;
}

void PublishedWeights::expect_shape(const Place& place, const std::vector<int64_t>& shape) {
  if (const std::vector<int64_t>& stored = entry(place).shape; stored != shape) {
    misshapen_.push_back(place.stored_name + " is " + shape_text(stored) + ", the model has " +
                         shape_text(shape));
  }
}

// A stack [experts, in, out] that is stored as [experts, out, in] in MXFP4.
bool PublishedWeights::place_packed(const ParamSpec& spec) {
  const StackPlace& stack = *spec.stack;
  if (!stack.transposed || stack.prefix.size() != 1) return false;
  const Place* blocks = find_stored(stack.tensor + kMxfp4Blocks);
  const Place* scales = find_stored(stack.tensor + kMxfp4Scales);
  if (!blocks || !scales) return false;
  const int64_t groups = stack.shape[1] / kMxfp4Block;
  expect_shape(*blocks, {stack.shape[0], stack.shape[2], groups, kMxfp4BlockBytes});
  expect_shape(*scales, {stack.shape[0], stack.shape[2], groups});
  if (stack.shape[1] % kMxfp4Block != 0) {
    misshapen_.push_back(stack.tensor + " has " + std::to_string(stack.shape[1]) +
                         " columns, which are no whole blocks of MXFP4");
  }
  Place place = *blocks;
  place.prefix = stack.prefix;
  place.first_row = stack.first_row;
  place.row_step = stack.row_step;
  place.scales = scales->stored_name;
  place.scales_file = scales->file;
  for (const Place* bytes : {blocks, scales}) {
    used_.insert(bytes->stored_name);
    packed_.insert(bytes->stored_name);
  }
  places_[spec.name] = std::move(place);
  return true;
}

// Where the family's own files hold it.
bool PublishedWeights::place_in_stack(const ParamSpec& spec) {
  if (!spec.stack) return false;
  const Place* stored = find_stored(spec.stack->tensor);
  if (!stored) return place_packed(spec);
  Place place = *stored;
  place.prefix = spec.stack->prefix;
  place.first_row = spec.stack->first_row;
  place.row_step = spec.stack->row_step;
  place.transposed = spec.stack->transposed;
  used_.insert(place.stored_name);
  expect_shape(place, spec.stack->shape);
  places_[spec.name] = std::move(place);
  return true;
}

void PublishedWeights::place(const ParamSpec& spec) {
  if (place_in_stack(spec)) return;
  const Place* stored = find_stored(spec.name);
  if (stored) {
    used_.insert(stored->stored_name);
    places_[spec.name] = *stored;
    expect_shape(*stored, spec.shape);
  } else if (spec.tied_to.empty() && !place_stacked_expert(spec)) {
    const std::string& name = spec.stack ? spec.stack->tensor : spec.name;
    if (missing_names_.insert(name).second) missing_.push_back(name);
  }
}

void PublishedWeights::look_at_the_rest(const std::vector<ParamSpec>& model) {
  for (const std::string& name : used_) {
    const SafetensorsEntry& stored = entry(stored_.at(name));
    if (packed_.contains(name)) {
      if (stored.dtype != ElementType::kU8) {
        unpacked_.push_back(name + " is " + std::string(name_of(stored.dtype)));
      }
    } else if (!is_weight_type(stored.dtype)) {
      mistyped_.push_back(name + " is " + std::string(name_of(stored.dtype)));
    }
  }
  // Layers of multi-token prediction that the model does without: they join two rows to one.
  for (const auto& [name, place] : stored_) {
    if (name.ends_with(".eh_proj.weight")) left_out_.insert(layer_of(name));
  }
  for (const ParamSpec& spec : model) left_out_.erase(layer_of(spec.name));
  left_out_.erase("");
  for (const auto& [name, place] : stored_) {
    if (left_out_.contains(layer_of(name))) {
      ++left_out_tensors_;
    } else if (!used_.contains(name) && !name.ends_with("rotary_emb.inv_freq")) {
      surplus_.push_back(name);
    }
  }
}

std::string PublishedWeights::problem() const {
  std::string report;
  list_names(report, "missing", missing_);
  list_names(report, "not in the model", surplus_);
  list_names(report, "of another shape", misshapen_);
  list_names(report, "neither F64, F32, F16 nor BF16", mistyped_);
  list_names(report, "not U8, as blocks and scales of MXFP4 are", unpacked_);
  return report.empty() ? "" : "the weights do not fit the model:" + report;
}

std::string PublishedWeights::unused() const {
  if (left_out_.empty()) return "";
  std::string layers;
  for (const std::string& layer : left_out_) {
    layers += (layers.empty() ? "" : ", ") + layer.substr(0, layer.size() - 1);
  }
  return detail::concat(left_out_tensors_, " tensors of multi-token prediction (", layers,
                        ") are not used: the model has no such layer");
}

}  // namespace tessera
