#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

/// The letter that stands for a byte in byte-level vocabularies: itself where it can be seen, else
/// U+0100 and on.
const std::array<std::string, 256>& byte_letters();

/// The byte that a letter stands for.
std::optional<uint8_t> byte_of_letter(uint32_t code_point);

/// The bytes of a piece written in letters, or nothing if one of its characters stands for none.
std::optional<std::string> bytes_of_letters(std::string_view piece);

/// `bytes` written in letters.
std::string spelled_in_letters(std::string_view bytes);

}  // namespace tessera
