#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace tessera {

/// A file of known size and checksums. What is read has been checked: whole blocks are read, so a
/// range costs up to two blocks more than it has. One thread at a time.
class VerifiedFile {
 public:
  /// Throws CheckpointError when the file is missing or has another size.
  VerifiedFile(std::filesystem::path path, uint64_t bytes, std::vector<uint64_t> sums);
  ~VerifiedFile();
  VerifiedFile(const VerifiedFile&) = delete;
  VerifiedFile& operator=(const VerifiedFile&) = delete;

  /// Bytes [offset, offset + count). Throws CheckpointError that names the file when a checksum
  /// differs or the disk fails.
  void read(uint64_t offset, uint64_t count, char* out);

  /// Reads and checks every block.
  void verify();

  /// Bytes that were read from the file so far.
  uint64_t bytes_read() const { return bytes_read_; }

 private:
  uint64_t size_of_block(uint64_t block) const;
  void read_block(uint64_t block, char* out);

  std::filesystem::path path_;
  uint64_t bytes_;
  std::vector<uint64_t> sums_;
  int descriptor_ = -1;
  std::vector<char> buffer_;  // of the block below
  uint64_t buffered_ = UINT64_MAX;
  uint64_t bytes_read_ = 0;
};

}  // namespace tessera
