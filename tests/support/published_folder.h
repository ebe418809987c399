#pragma once

// Folders with published weights, made without libtorch: every element is zero.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tessera/layout/model_spec.h"
#include "tessera/storage/safetensors_header.h"

namespace tessera::test {

/// Writes a .safetensors file with these tensors.
inline void write_weight_file(const std::filesystem::path& path,
                              std::vector<SafetensorsEntry> tensors) {
  SafetensorsHeader header{std::move(tensors), {}};
  const std::string front = format_safetensors_header(header);
  std::ofstream(path, std::ios::binary) << front;
  const uint64_t data = header.entries.empty() ? 0 : header.entries.back().end;
  std::filesystem::resize_file(path, front.size() + data);
}

/// The tensors of a model as it is published: no tied head.
inline std::vector<SafetensorsEntry> tensors_of(const std::vector<ParamSpec>& model,
                                                ElementType type = ElementType::kBF16) {
  std::vector<SafetensorsEntry> tensors;
  for (const ParamSpec& spec : model) {
    if (!spec.tied_to.empty()) continue;
    SafetensorsEntry entry;
    entry.name = spec.name;
    entry.dtype = type;
    entry.shape = spec.shape;
    tensors.push_back(std::move(entry));
  }
  return tensors;
}

}  // namespace tessera::test
