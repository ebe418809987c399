#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

/// The first byte that no well-formed UTF-8 (Unicode 15, table 3-7) has at its place: overlong
/// forms, surrogates, what is above U+10FFFF, a sequence that is cut off. text.size() if there is
/// none.
size_t first_invalid_utf8(std::string_view text);

/// `bytes` with U+FFFD in place of each part that is no UTF-8 ("maximal subparts" of Unicode 15,
/// 3.9, as in Python and Rust).
std::string with_valid_utf8(std::string_view bytes);

/// Appends a code point that is no surrogate.
void append_utf8(uint32_t code_point, std::string& text);

}  // namespace tessera
