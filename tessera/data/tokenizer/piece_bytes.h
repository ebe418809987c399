#pragma once

#include <cstdint>
#include <string_view>

namespace tessera {

/// Bytes of text of a piece that writes each byte as one letter (byte-level BPE): its letters.
int64_t letters_of(std::string_view piece);

/// Bytes of text of a piece that writes a space as U+2581, and a single byte as <0x41>.
int64_t bytes_of_spaced(std::string_view piece);

}  // namespace tessera
