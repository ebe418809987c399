#pragma once

// The header of a .safetensors file: 8 bytes of length (little endian), JSON, then the tensors'
// bytes one after the other. https://huggingface.co/docs/safetensors (format)

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/storage/element_type.h"

namespace tessera {

struct SafetensorsEntry {
  std::string name;
  ElementType dtype = ElementType::kF32;
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

/// Reads the JSON text of a header whose data have `data_bytes`. Every entry is checked (type,
/// shape, place, size; no overlaps, no holes) before it is believed. Throws CheckpointError that
/// names `file`.
SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes,
                                           const std::filesystem::path& file);

/// A file whose header has been read; nothing else of it.
struct SafetensorsHeaderFile {
  std::filesystem::path path;
  uint64_t bytes = 0;       // of the file
  uint64_t data_start = 0;  // byte of the file at which the data begin
  std::map<std::string, SafetensorsEntry> entries;
  SafetensorsMetadata metadata;
};

/// Throws CheckpointError that names the file: not there, no file, damaged, a pointer of Git LFS.
SafetensorsHeaderFile read_safetensors_header(const std::filesystem::path& path);

/// Sets begin and end of each entry in the order given and returns the bytes in front of the data:
/// length, JSON, padding to a multiple of 8.
std::string format_safetensors_header(SafetensorsHeader& header);

}  // namespace tessera
