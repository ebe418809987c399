#pragma once

// Checksums by which damage to a file is found, also when only a part of it is read.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Bytes that one checksum covers; the last block of a file is shorter.
inline constexpr uint64_t kSumBlock = 1 << 20;

/// Checksums of the blocks of a file, taken while its bytes go by.
class BlockSums {
 public:
  void add(const char* bytes, uint64_t count);
  /// Of all bytes so far; a file without bytes has none.
  std::vector<uint64_t> finish();

 private:
  std::vector<char> partial_;  // of the block that is not full yet
  std::vector<uint64_t> sums_;
};

/// Of the bytes of one block.
uint64_t block_sum(const char* bytes, uint64_t count);

/// 16 hexadecimal digits each, one after the other. from_hex throws std::invalid_argument.
std::string to_hex(const std::vector<uint64_t>& sums);
std::vector<uint64_t> from_hex(std::string_view text);

}  // namespace tessera
