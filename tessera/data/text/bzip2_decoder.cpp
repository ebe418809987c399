#include <bzlib.h>

#include "tessera/data/text/decoder.h"

namespace tessera {

namespace {

class Bzip2Decoder : public Decoder {
 public:
  Bzip2Decoder() = default;
  ~Bzip2Decoder() override { ::BZ2_bzDecompressEnd(&stream_); }
  Bzip2Decoder(const Bzip2Decoder&) = delete;
  Bzip2Decoder& operator=(const Bzip2Decoder&) = delete;

  void begin_member() override {
    ::BZ2_bzDecompressEnd(&stream_);
    stream_ = {};
    if (::BZ2_bzDecompressInit(&stream_, 0, 0) != BZ_OK) throw DecodeError("no memory");
  }

  Step step(std::span<const char> in, std::span<char> out) override {
    stream_.next_in = const_cast<char*>(in.data());
    stream_.avail_in = static_cast<unsigned>(in.size());
    stream_.next_out = out.data();
    stream_.avail_out = static_cast<unsigned>(out.size());
    const int code = ::BZ2_bzDecompress(&stream_);
    if (code == BZ_MEM_ERROR) throw DecodeError("no memory");
    if (code != BZ_OK && code != BZ_STREAM_END) throw DecodeError("wrong data or check sum");
    return {in.size() - stream_.avail_in, out.size() - stream_.avail_out, code == BZ_STREAM_END};
  }

 private:
  bz_stream stream_{};
};

}  // namespace

std::unique_ptr<Decoder> make_bzip2_decoder() { return std::make_unique<Bzip2Decoder>(); }

}  // namespace tessera
