#pragma once

// The header of a .safetensors file: 8 bytes of length (little endian), JSON, then the tensors'
// bytes one after the other. https://huggingface.co/docs/safetensors (format)

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct SafetensorsEntry {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // bytes, from the start of the data
  uint64_t end = 0;

  uint64_t bytes() const { return end - begin; }
};

using SafetensorsMetadata = std::map<std::string, std::string>;

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // by place in the file
  SafetensorsMetadata metadata;
};

/// "F32" and so on; none for a type that the format or libtorch does not have.
std::optional<std::string_view> safetensors_name(at::ScalarType dtype);
std::optional<at::ScalarType> safetensors_dtype(std::string_view name);

/// Reads the JSON text of a header whose data have `data_bytes`. Every entry is checked (type,
/// shape, place, size; no overlaps, no holes) before it is believed. Throws CheckpointError that
/// names `file`.
SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes,
                                           const std::filesystem::path& file);

/// Sets begin and end of each entry in the order given and returns the bytes in front of the data:
/// length, JSON, padding to a multiple of 8.
std::string format_safetensors_header(SafetensorsHeader& header);

}  // namespace tessera
