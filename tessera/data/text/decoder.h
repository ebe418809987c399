#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>

namespace tessera {

/// What a library says of compressed data that it cannot read. The caller adds the file and place.
class DecodeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Decodes one compressed format. A file holds one or more members (gzip's word; zstd says frame,
/// xz and bzip2 say stream), and a decoder works on one member at a time.
class Decoder {
 public:
  struct Step {
    size_t read = 0;     // bytes of `in` that were used
    size_t written = 0;  // bytes of `out` that were filled
    bool member_ends = false;
  };
  virtual ~Decoder() = default;
  /// Makes ready for the first or the next member.
  virtual void begin_member() = 0;
  /// Decodes as much as fits. No progress means that it needs more input. Throws DecodeError.
  virtual Step step(std::span<const char> in, std::span<char> out) = 0;
};

std::unique_ptr<Decoder> make_gzip_decoder();
std::unique_ptr<Decoder> make_zstd_decoder();
std::unique_ptr<Decoder> make_xz_decoder();
std::unique_ptr<Decoder> make_lzma_decoder();  // .lzma, older than .xz
std::unique_ptr<Decoder> make_bzip2_decoder();

}  // namespace tessera
