#include "tessera/storage/block_sums.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "tessera/data/hash.h"

namespace tessera {

void BlockSums::add(const char* bytes, uint64_t count) {
  while (count > 0) {
    if (partial_.empty() && count >= kSumBlock) {
      sums_.push_back(block_sum(bytes, kSumBlock));
      bytes += kSumBlock;
      count -= kSumBlock;
      continue;
    }
    const uint64_t taken = std::min(count, kSumBlock - partial_.size());
    partial_.insert(partial_.end(), bytes, bytes + taken);
    bytes += taken;
    count -= taken;
    if (partial_.size() == kSumBlock) {
      sums_.push_back(block_sum(partial_.data(), kSumBlock));
      partial_.clear();
    }
  }
}

std::vector<uint64_t> BlockSums::finish() {
  std::vector<uint64_t> sums = sums_;
  if (!partial_.empty()) sums.push_back(block_sum(partial_.data(), partial_.size()));
  return sums;
}

uint64_t block_sum(const char* bytes, uint64_t count) {
  return checksum64(reinterpret_cast<const std::byte*>(bytes), static_cast<int64_t>(count));
}

std::string to_hex(const std::vector<uint64_t>& sums) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(16 * sums.size());
  for (const uint64_t sum : sums) {
    for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[sum >> shift & 15];
  }
  return text;
}

std::vector<uint64_t> from_hex(std::string_view text) {
  if (text.size() % 16 != 0) throw std::invalid_argument("checksums of another length");
  std::vector<uint64_t> sums(text.size() / 16);
  for (size_t i = 0; i < sums.size(); ++i) {
    const char* begin = text.data() + 16 * i;
    const auto [end, error] = std::from_chars(begin, begin + 16, sums[i], 16);
    if (error != std::errc() || end != begin + 16) {
      throw std::invalid_argument("a checksum that is no number");
    }
  }
  return sums;
}

}  // namespace tessera
