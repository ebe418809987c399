#include <lzma.h>

#include <cstdint>

#include "tessera/data/text/decoder.h"

namespace tessera {

namespace {

const char* words_for(lzma_ret code) {
  switch (code) {
    case LZMA_MEM_ERROR: return "no memory";
    case LZMA_FORMAT_ERROR: return "unknown header";
    case LZMA_OPTIONS_ERROR: return "made with options that liblzma does not know";
    case LZMA_DATA_ERROR: return "wrong data or check sum";
    default: return "liblzma refuses it";
  }
}

// Both formats of liblzma: .xz, and the older .lzma.
class LzmaDecoder : public Decoder {
 public:
  explicit LzmaDecoder(bool old_format) : old_format_(old_format) {}
  ~LzmaDecoder() override { ::lzma_end(&stream_); }
  LzmaDecoder(const LzmaDecoder&) = delete;
  LzmaDecoder& operator=(const LzmaDecoder&) = delete;

  void begin_member() override {
    const lzma_ret code = old_format_ ? ::lzma_alone_decoder(&stream_, UINT64_MAX)
                                      : ::lzma_stream_decoder(&stream_, UINT64_MAX, 0);
    if (code != LZMA_OK) throw DecodeError(words_for(code));
  }

  Step step(std::span<const char> in, std::span<char> out) override {
    stream_.next_in = reinterpret_cast<const uint8_t*>(in.data());
    stream_.avail_in = in.size();
    stream_.next_out = reinterpret_cast<uint8_t*>(out.data());
    stream_.avail_out = out.size();
    const lzma_ret code = ::lzma_code(&stream_, LZMA_RUN);
    if (code != LZMA_OK && code != LZMA_STREAM_END && code != LZMA_BUF_ERROR) {
      throw DecodeError(words_for(code));
    }
    return {in.size() - stream_.avail_in, out.size() - stream_.avail_out, code == LZMA_STREAM_END};
  }

 private:
  bool old_format_;
  lzma_stream stream_ = LZMA_STREAM_INIT;
};

}  // namespace

std::unique_ptr<Decoder> make_xz_decoder() { return std::make_unique<LzmaDecoder>(false); }
std::unique_ptr<Decoder> make_lzma_decoder() { return std::make_unique<LzmaDecoder>(true); }

}  // namespace tessera
