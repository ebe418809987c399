#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tessera/data/text/byte_source.h"

namespace tessera {

enum class Compression { kNone, kGzip, kZstd, kXz, kLzma, kBzip2 };

/// "gzip", "zstd", ...
std::string to_string(Compression compression);

/// What the first bytes of an input say; sixteen are enough.
Compression compression_of(std::string_view head);

/// The decompressed bytes of `inner`, all members of it. Zeros after the last member are left out,
/// as a tape or tar may add them. Memory: some buffers, and the window that the format asks for.
/// Its read() throws ConfigError with `name` and the byte of the compressed input: damaged, cut off
/// within a member, or followed by bytes that are none of this format.
std::unique_ptr<ByteSource> decompress(std::unique_ptr<ByteSource> inner, Compression compression,
                                       const std::string& name);

}  // namespace tessera
