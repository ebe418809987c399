#include <zstd.h>

#include "tessera/data/text/decoder.h"

namespace tessera {

namespace {

class ZstdDecoder : public Decoder {
 public:
  ZstdDecoder() : stream_(::ZSTD_createDStream()) {
    if (stream_ == nullptr) throw DecodeError("no memory");
    // Files made with --long=31 are read too: their window is 2 GiB.
    ::ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, sizeof(size_t) == 8 ? 31 : 30);
  }
  ~ZstdDecoder() override { ::ZSTD_freeDStream(stream_); }
  ZstdDecoder(const ZstdDecoder&) = delete;
  ZstdDecoder& operator=(const ZstdDecoder&) = delete;

  void begin_member() override { ::ZSTD_DCtx_reset(stream_, ZSTD_reset_session_only); }

  Step step(std::span<const char> in, std::span<char> out) override {
    ZSTD_inBuffer input{in.data(), in.size(), 0};
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    const size_t code = ::ZSTD_decompressStream(stream_, &output, &input);
    if (::ZSTD_isError(code) != 0) throw DecodeError(::ZSTD_getErrorName(code));
    return {input.pos, output.pos, code == 0};
  }

 private:
  ZSTD_DStream* stream_;
};

}  // namespace

std::unique_ptr<Decoder> make_zstd_decoder() { return std::make_unique<ZstdDecoder>(); }

}  // namespace tessera
