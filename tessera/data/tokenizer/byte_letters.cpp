#include "tessera/data/tokenizer/byte_letters.h"

#include "tessera/base/utf8.h"
#include "tessera/data/tokenizer/unicode.h"

namespace tessera {

namespace {

constexpr bool is_seen(uint32_t byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

constexpr uint32_t kFirstStandIn = 256;

// Bytes that are not seen, in their order: letter 256 + i stands for the i-th.
constexpr std::array<uint8_t, 68> hidden_bytes() {
  std::array<uint8_t, 68> hidden{};
  size_t count = 0;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    if (!is_seen(byte)) hidden[count++] = static_cast<uint8_t>(byte);
  }
  return hidden;
}

constexpr std::array<uint8_t, 68> kHidden = hidden_bytes();

}  // namespace

const std::array<std::string, 256>& byte_letters() {
  static const std::array<std::string, 256> letters = [] {
    std::array<std::string, 256> made;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      if (is_seen(byte)) append_utf8(byte, made[byte]);
    }
    for (uint32_t i = 0; i < kHidden.size(); ++i) append_utf8(kFirstStandIn + i, made[kHidden[i]]);
    return made;
  }();
  return letters;
}

std::optional<uint8_t> byte_of_letter(uint32_t code_point) {
  if (code_point < 256 && is_seen(code_point)) return static_cast<uint8_t>(code_point);
  if (code_point >= kFirstStandIn && code_point < kFirstStandIn + kHidden.size()) {
    return kHidden[code_point - kFirstStandIn];
  }
  return std::nullopt;
}

std::optional<std::string> bytes_of_letters(std::string_view piece) {
  std::string bytes;
  for (size_t at = 0; at < piece.size();) {
    const auto byte = byte_of_letter(next_code_point(piece, at));
    if (!byte) return std::nullopt;
    bytes += static_cast<char>(*byte);
  }
  return bytes;
}

std::string spelled_in_letters(std::string_view bytes) {
  std::string spelled;
  for (const char byte : bytes) spelled += byte_letters()[static_cast<uint8_t>(byte)];
  return spelled;
}

}  // namespace tessera
