#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tessera/base/box.h"
#include "tessera/storage/block_sums.h"
#include "tessera/storage/durable_file.h"
#include "tessera/storage/safetensors_header.h"

namespace tessera {

/// An open .safetensors file. Only what is asked for is read. Reading is safe from several threads.
/// Everything throws CheckpointError that names the file (and the tensor).
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  explicit SafetensorsFile(SafetensorsHeaderFile header);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::filesystem::path& path() const { return header_.path; }
  const SafetensorsMetadata& metadata() const { return header_.metadata; }
  const std::map<std::string, SafetensorsEntry>& entries() const { return header_.entries; }
  const SafetensorsEntry& entry(const std::string& name) const;

  /// The whole tensor, or the part of it in `box`, in the type of the file.
  at::Tensor read(const std::string& name) const;
  at::Tensor read_box(const std::string& name, const Box& box) const;

 private:
  void read_bytes(uint64_t offset, uint64_t count, char* out, const std::string& what) const;

  SafetensorsHeaderFile header_;
  int descriptor_ = -1;
};

/// Writes a .safetensors file front to back, so that no more than the piece at hand is in memory.
/// The file appears under its name when close() succeeds, never half written; without close(),
/// never.
class SafetensorsWriter {
 public:
  /// `entries` in the order in which they will come (begin and end are ignored).
  SafetensorsWriter(std::filesystem::path path, std::vector<SafetensorsEntry> entries,
                    SafetensorsMetadata metadata = {});

  /// The next elements of the file, of any shape, cast to the type of the entry they belong to; a
  /// tensor may come in several pieces, no piece may reach into the next tensor.
  void append(const at::Tensor& piece);

  /// Flushes to the disk and gives the file its name. Throws CheckpointError when something is
  /// missing or the disk refuses.
  void close();

  /// Byte of the file at which each entry starts, in the order given.
  std::vector<uint64_t> offsets() const;
  uint64_t bytes_written() const { return bytes_written_; }
  /// Of what has been written.
  std::vector<uint64_t> block_sums() { return sums_.finish(); }

 private:
  void write_bytes(const char* bytes, uint64_t count);

  std::filesystem::path path_;
  DurableFile file_;
  std::vector<SafetensorsEntry> entries_;
  size_t current_ = 0;     // entry that the next piece belongs to
  uint64_t in_entry_ = 0;  // bytes of it that are written
  uint64_t data_start_ = 0;
  uint64_t bytes_written_ = 0;
  BlockSums sums_;
};

}  // namespace tessera
