#include "tessera/checkpoint/hf_load.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/storage/mxfp4.h"
#include "tessera/storage/name_lists.h"

namespace tessera {

namespace fs = std::filesystem;

HfWeights::HfWeights(const fs::path& folder, const std::vector<ParamSpec>& model) {
  const PublishedWeights published(folder, model);
  if (const std::string problem = published.problem(); !problem.empty()) {
    throw CheckpointError(folder.string() + ": " + problem);
  }
  places_ = published.places();
  for (const SafetensorsHeaderFile& file : published.files()) files_.emplace_back(file);
  tie(folder, model);
}

void HfWeights::tie(const fs::path& folder, const std::vector<ParamSpec>& model) {
  std::vector<std::string> untied;
  for (const ParamSpec& spec : model) {
    if (spec.tied_to.empty()) continue;
    const Place& target = places_.at(spec.tied_to);
    const auto stored = places_.find(spec.name);
    if (stored != places_.end() && !equal(stored->second, target, spec.shape)) {
      untied.push_back(spec.name + " differs from " + spec.tied_to);
    }
    places_[spec.name] = target;
  }
  std::string report;
  list_names(report, "tied in the model, but", untied);
  if (!report.empty()) {
    throw CheckpointError(folder.string() + ": the weights do not fit the model:" + report);
  }
}

bool HfWeights::equal(const Place& a, const Place& b, const std::vector<int64_t>& shape) const {
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

// A part of a matrix in MXFP4, whole blocks of which are read.
at::Tensor HfWeights::read_packed(const Place& place, const Box& box) const {
  at::Tensor out = at::empty(box.sizes, at::kBFloat16);
  if (out.numel() == 0) return out;
  const int64_t rows = box.sizes[0];
  const int64_t first = box.offsets[1] / kMxfp4Block;
  const int64_t groups = (box.offsets[1] + box.sizes[1] - 1) / kMxfp4Block + 1 - first;
  const int64_t spread = (rows - 1) * place.row_step + 1;
  Box stored;
  stored.offsets = place.prefix;
  stored.sizes.assign(place.prefix.size(), 1);
  for (const auto& [offset, size] :
       {std::pair(place.first_row + box.offsets[0] * place.row_step, spread),
        std::pair(first, groups)}) {
    stored.offsets.push_back(offset);
    stored.sizes.push_back(size);
  }
  const at::Tensor scales = files_[place.scales_file].read_box(place.scales, stored);
  stored.offsets.push_back(0);
  stored.sizes.push_back(kMxfp4BlockBytes);
  const at::Tensor blocks = files_[place.file].read_box(place.stored_name, stored);

  at::Tensor wide = at::empty({rows, groups * kMxfp4Block}, at::kBFloat16);
  auto* to = reinterpret_cast<uint16_t*>(wide.mutable_data_ptr<at::BFloat16>());
  const uint8_t* block = blocks.const_data_ptr<uint8_t>();
  const uint8_t* scale = scales.const_data_ptr<uint8_t>();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t group = 0; group < groups; ++group, to += kMxfp4Block) {
      const int64_t at = row * place.row_step * groups + group;
      if (!widen_mxfp4(block + at * kMxfp4BlockBytes, scale[at], to)) {
        throw CheckpointError(files_[place.scales_file].path().string() + ": '" + place.scales +
                              "' has a scale of " + std::to_string(scale[at]) +
                              ", with which a block of MXFP4 holds no number");
      }
    }
  }
  out.copy_(wide.narrow(1, box.offsets[1] - first * kMxfp4Block, box.sizes[1]));
  return out;
}

at::Tensor HfWeights::read_place(const Place& place, const Box& box) const {
  if (!place.scales.empty()) return read_packed(place, box);
  Box own = box;  // of what the prefix leaves
  if (!own.offsets.empty()) {
    own.offsets[0] = place.first_row + box.offsets[0] * place.row_step;
    own.sizes[0] = box.sizes[0] == 0 ? 0 : (box.sizes[0] - 1) * place.row_step + 1;
  }
  if (place.transposed) {
    std::swap(own.offsets[0], own.offsets[1]);
    std::swap(own.sizes[0], own.sizes[1]);
  }
  Box stored;
  stored.offsets = place.prefix;
  stored.sizes.assign(place.prefix.size(), 1);
  stored.offsets.insert(stored.offsets.end(), own.offsets.begin(), own.offsets.end());
  stored.sizes.insert(stored.sizes.end(), own.sizes.begin(), own.sizes.end());
  at::Tensor read = files_[place.file].read_box(place.stored_name, stored).reshape(own.sizes);
  if (place.transposed) read = read.t();
  return place.row_step == 1 ? read : read.slice(0, 0, read.size(0), place.row_step);
}

ElementType HfWeights::type(const std::string& name) const {
  const Place& place = places_.at(name);
  if (!place.scales.empty()) return ElementType::kBF16;
  return files_[place.file].entry(place.stored_name).dtype;
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
