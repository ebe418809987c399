#include <zlib.h>

#include "tessera/data/text/decoder.h"

namespace tessera {

namespace {

class GzipDecoder : public Decoder {
 public:
  GzipDecoder() {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (::inflateInit2(&stream_, kGzipOnly) != Z_OK) throw DecodeError("no memory");
  }
  ~GzipDecoder() override { ::inflateEnd(&stream_); }
  GzipDecoder(const GzipDecoder&) = delete;
  GzipDecoder& operator=(const GzipDecoder&) = delete;

  void begin_member() override { ::inflateReset(&stream_); }

  Step step(std::span<const char> in, std::span<char> out) override {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream_.avail_in = static_cast<uInt>(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    const int code = ::inflate(&stream_, Z_NO_FLUSH);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
      throw DecodeError(stream_.msg != nullptr ? stream_.msg : ::zError(code));
    }
    return {in.size() - stream_.avail_in, out.size() - stream_.avail_out, code == Z_STREAM_END};
  }

 private:
  z_stream stream_{};
};

}  // namespace

std::unique_ptr<Decoder> make_gzip_decoder() { return std::make_unique<GzipDecoder>(); }

}  // namespace tessera
