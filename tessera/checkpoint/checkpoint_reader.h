#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "tessera/storage/manifest.h"
#include "tessera/storage/verified_file.h"

namespace tessera {

/// One complete checkpoint. Any box of any tensor is read, whatever boxes were written; only the
/// bytes of it, in blocks, and each block is checked. One thread at a time.
/// Everything throws CheckpointError that names the file.
class CheckpointReader {
 public:
  explicit CheckpointReader(std::filesystem::path folder);

  const Manifest& manifest() const { return manifest_; }
  const std::filesystem::path& folder() const { return folder_; }

  /// Every file is there and has its size; the small ones are read and checked. Files of copies may
  /// be missing, no load needs them: returned, one line each.
  std::vector<std::string> check_files() const;
  /// Reads and checks every byte.
  void verify() const;

  /// Fills `out` ([box.sizes], any device and dtype) with the part of `tensor` in `box`. At most
  /// one buffer of 64 MiB is needed beside it, none when dtype and memory allow to read in place.
  void read_box(const StoredTensor& tensor, const Box& box, at::Tensor out);

  /// Bytes read from the files so far.
  uint64_t bytes_read() const;

 private:
  VerifiedFile& file(size_t index);
  void read_in_place(const StoredTensor& tensor, const Box& box, char* out);

  std::filesystem::path folder_;
  Manifest manifest_;
  std::map<size_t, std::unique_ptr<VerifiedFile>> open_;
  uint64_t read_by_closed_ = 0;
};

}  // namespace tessera
