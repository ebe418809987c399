#include "tests/data/compress.h"

#include <bzlib.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <stdexcept>

namespace tessera::test {

namespace {

void require(bool done) {
  if (!done) throw std::runtime_error("cannot compress");
}

const uint8_t* bytes_of(const std::string& text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

}  // namespace

std::string gzip(const std::string& text) {
  z_stream stream{};
  require(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = const_cast<Bytef*>(bytes_of(text));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  require(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);  // as the program zstd does
  const size_t size = ZSTD_compress2(context, out.data(), out.size(), text.data(), text.size());
  ZSTD_freeCCtx(context);
  require(ZSTD_isError(size) == 0);
  out.resize(size);
  return out;
}

std::string xz(const std::string& text) {
  std::string out(lzma_stream_buffer_bound(text.size()), '\0');
  size_t size = 0;
  require(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, nullptr, bytes_of(text), text.size(),
                                  reinterpret_cast<uint8_t*>(out.data()), &size,
                                  out.size()) == LZMA_OK);
  out.resize(size);
  return out;
}

std::string lzma(const std::string& text) {
  lzma_options_lzma options;
  require(!lzma_lzma_preset(&options, 6));
  lzma_stream stream = LZMA_STREAM_INIT;
  require(lzma_alone_encoder(&stream, &options) == LZMA_OK);
  std::string out(text.size() * 2 + 1024, '\0');
  stream.next_in = bytes_of(text);
  stream.avail_in = text.size();
  stream.next_out = reinterpret_cast<uint8_t*>(out.data());
  stream.avail_out = out.size();
  require(lzma_code(&stream, LZMA_FINISH) == LZMA_STREAM_END);
  out.resize(stream.total_out);
  lzma_end(&stream);
  return out;
}

std::string bzip2(const std::string& text) {
  std::string out(text.size() * 2 + 1024, '\0');
  auto size = static_cast<unsigned>(out.size());
  require(BZ2_bzBuffToBuffCompress(out.data(), &size, const_cast<char*>(text.data()),
                                   static_cast<unsigned>(text.size()), 9, 0, 0) == BZ_OK);
  out.resize(size);
  return out;
}

}  // namespace tessera::test
