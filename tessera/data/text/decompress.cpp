#include "tessera/data/text/decompress.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/data/text/decoder.h"

namespace tessera {

namespace {

using std::string_view_literals::operator""sv;

constexpr size_t kBufferBytes = size_t{256} << 10;
constexpr size_t kMagicBytes = 16;  // what compression_of wants to see

bool is_zstd(std::string_view head) {
  if (head.starts_with("\x28\xb5\x2f\xfd")) return true;
  // A frame that decoders pass over: 0x184D2A50 to 0x184D2A5F.
  return head.size() >= 4 && (head[0] & 0xf0) == 0x50 && head.substr(1, 3) == "\x2a\x4d\x18";
}

// The header has no magic number: properties, the size of the dictionary (a power of two, or one
// and a half), the size of the data (all ones, or below 256 GiB). As in liblzma's own detection.
bool is_lzma(std::string_view head) {
  if (head.size() < 13 || head[0] != 0x5d) return false;
  uint64_t dictionary = 0;
  uint64_t size = 0;
  for (int i = 3; i >= 0; --i) dictionary = dictionary << 8 | static_cast<uint8_t>(head[1 + i]);
  for (int i = 7; i >= 0; --i) size = size << 8 | static_cast<uint8_t>(head[5 + i]);
  const bool round = (dictionary & (dictionary - 1)) == 0 ||
                     (dictionary % 3 == 0 && ((dictionary / 3) & (dictionary / 3 - 1)) == 0);
  return dictionary >= 4096 && round && (size == UINT64_MAX || size < uint64_t{1} << 38);
}

std::unique_ptr<Decoder> make_decoder(Compression compression) {
  switch (compression) {
    case Compression::kGzip: return make_gzip_decoder();
    case Compression::kZstd: return make_zstd_decoder();
    case Compression::kXz: return make_xz_decoder();
    case Compression::kLzma: return make_lzma_decoder();
    case Compression::kBzip2: return make_bzip2_decoder();
    case Compression::kNone: break;
  }
  TESSERA_CHECK(false, "nothing to decode");
  return nullptr;
}

class DecompressedSource : public ByteSource {
 public:
  DecompressedSource(std::unique_ptr<ByteSource> inner, Compression compression, std::string name)
      : inner_(std::move(inner)),
        compression_(compression),
        name_(std::move(name)),
        decoder_(make_decoder(compression)),
        buffer_(kBufferBytes) {}

  size_t read(std::span<char> out) override {
    while (in_member_ || begin_member()) {
      if (first_ == last_) fill(1);
      Decoder::Step step;
      try {
        step = decoder_->step(waiting(), out);
      } catch (const DecodeError& error) {
        fail(std::string("is damaged: ") + error.what());
      }
      first_ += step.read;
      written_ += static_cast<int64_t>(step.written);
      in_member_ = !step.member_ends;
      if (step.written > 0) return step.written;
      if (!in_member_ || step.read > 0) continue;
      if (first_ < last_) fail("is damaged: the decoder does not go on");
      if (ended_) fail("is cut off: it ends within a member");
    }
    return 0;
  }

 private:
  std::span<const char> waiting() const {
    return std::span(buffer_).subspan(first_, last_ - first_);
  }

  // Reads on until `least` bytes wait or the input ends.
  void fill(size_t least) {
    std::copy(buffer_.begin() + static_cast<int64_t>(first_),
              buffer_.begin() + static_cast<int64_t>(last_), buffer_.begin());
    before_ += static_cast<int64_t>(first_);
    last_ -= first_;
    first_ = 0;
    while (last_ < least && !ended_) {
      const size_t got = inner_->read(std::span(buffer_).subspan(last_));
      last_ += got;
      ended_ = got == 0;
    }
  }

  // False at the end of the input.
  bool begin_member() {
    for (;;) {
      fill(kMagicBytes);
      if (first_ == last_) return false;
      if (members_ == 0 || buffer_[first_] != '\0') break;
      while (first_ < last_ && buffer_[first_] == '\0') ++first_;
    }
    const std::span<const char> next = waiting();
    if (compression_of({next.data(), next.size()}) != compression_) {
      fail("is followed by bytes that are no " + to_string(compression_));
    }
    try {
      decoder_->begin_member();
    } catch (const DecodeError& error) {
      fail(std::string("cannot be decoded: ") + error.what());
    }
    ++members_;
    in_member_ = true;
    return true;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw ConfigError(detail::concat(name_, ": the ", to_string(compression_), " data ", what,
                                     "; at byte ", before_ + static_cast<int64_t>(first_),
                                     ", after ", written_, " decompressed bytes"));
  }

  std::unique_ptr<ByteSource> inner_;
  Compression compression_;
  std::string name_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<char> buffer_;
  size_t first_ = 0;  // bytes [first_, last_) of the buffer wait
  size_t last_ = 0;
  int64_t before_ = 0;  // bytes of the input ahead of the buffer
  int64_t written_ = 0;
  int64_t members_ = 0;
  bool ended_ = false;
  bool in_member_ = false;
};

}  // namespace

std::string to_string(Compression compression) {
  switch (compression) {
    case Compression::kNone: return "none";
    case Compression::kGzip: return "gzip";
    case Compression::kZstd: return "zstd";
    case Compression::kXz: return "xz";
    case Compression::kLzma: return "lzma";
    case Compression::kBzip2: return "bzip2";
  }
  return "?";
}

Compression compression_of(std::string_view head) {
  if (head.starts_with("\x1f\x8b\x08")) return Compression::kGzip;
  if (is_zstd(head)) return Compression::kZstd;
  if (head.starts_with("\xfd"
                       "7zXZ\0"sv))
    return Compression::kXz;
  if (head.starts_with("BZh") && head.size() >= 10 && head[3] >= '1' && head[3] <= '9' &&
      (head.substr(4, 6) == "\x31\x41\x59\x26\x53\x59" ||
       head.substr(4, 6) == "\x17\x72\x45\x38\x50\x90")) {
    return Compression::kBzip2;
  }
  return is_lzma(head) ? Compression::kLzma : Compression::kNone;
}

std::unique_ptr<ByteSource> decompress(std::unique_ptr<ByteSource> inner, Compression compression,
                                       const std::string& name) {
  return std::make_unique<DecompressedSource>(std::move(inner), compression, name);
}

}  // namespace tessera
