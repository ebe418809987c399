#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

/// The code point that begins at byte `at` of well-formed UTF-8; moves `at` behind it.
inline uint32_t next_code_point(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  const uint32_t lead = byte(at);
  if (lead < 0x80) return text[at++];
  if (lead < 0xe0) {
    at += 2;
    return (lead & 0x1f) << 6 | (byte(at - 1) & 0x3f);
  }
  if (lead < 0xf0) {
    at += 3;
    return (lead & 0xf) << 12 | (byte(at - 2) & 0x3f) << 6 | (byte(at - 1) & 0x3f);
  }
  at += 4;
  return (lead & 7) << 18 | (byte(at - 3) & 0x3f) << 12 | (byte(at - 2) & 0x3f) << 6 |
         (byte(at - 1) & 0x3f);
}

/// The code point that ends in front of byte `at` > 0; moves `at` to its first byte.
uint32_t previous_code_point(std::string_view text, size_t& at);

/// Unicode's White_Space.
bool is_white_space(uint32_t code_point);
/// General categories Nd, Nl and No.
bool is_numeric(uint32_t code_point);
/// Categories P, and the ASCII characters that are not letters, digits or blanks.
bool is_punctuation(uint32_t code_point);
/// \w of Unicode's UTS 18: alphabetic, marks, decimal digits, connectors and joiners.
bool is_word_character(uint32_t code_point);

/// Every character in lower case by itself: no context, no language.
std::string lower_case(std::string_view text);

/// `text`, well-formed UTF-8, without white space in front (`left`) and behind (`right`).
std::string_view stripped(std::string_view text, bool left, bool right);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

/// Unicode's normal form of well-formed UTF-8.
std::string normal_form(NormalForm form, std::string_view text);

}  // namespace tessera
