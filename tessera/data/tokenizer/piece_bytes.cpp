#include "tessera/data/tokenizer/piece_bytes.h"

#include <algorithm>
#include <cctype>

namespace tessera {

int64_t letters_of(std::string_view piece) {
  return std::ranges::count_if(
      piece, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; });
}

int64_t bytes_of_spaced(std::string_view piece) {
  constexpr std::string_view kSpace = "\u2581";
  const bool is_byte = piece.size() == 6 && piece.starts_with("<0x") && piece.ends_with('>') &&
                       std::isxdigit(static_cast<unsigned char>(piece[3])) != 0 &&
                       std::isxdigit(static_cast<unsigned char>(piece[4])) != 0;
  if (is_byte) return 1;
  auto bytes = static_cast<int64_t>(piece.size());
  for (size_t at = piece.find(kSpace); at != std::string_view::npos;
       at = piece.find(kSpace, at + kSpace.size())) {
    bytes -= static_cast<int64_t>(kSpace.size()) - 1;
  }
  return bytes;
}

}  // namespace tessera
