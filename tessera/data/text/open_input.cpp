#include "tessera/data/text/open_input.h"

#include <utility>

#include "tessera/base/error.h"
#include "tessera/data/text/decompress.h"

namespace tessera {

namespace {

constexpr size_t kHeadBytes = size_t{64} << 10;
constexpr int kMostLayers = 4;  // compressed once more by mistake: a.gz within gzip

}  // namespace

OpenInput open_input(const std::string& path, std::optional<TextFormat> format,
                     const std::string& key) {
  OpenInput input;
  input.name = input_name(path);
  auto file = std::make_unique<FileSource>(path);
  input.file = file.get();
  auto peeked = std::make_unique<PeekedSource>(std::move(file), kHeadBytes);
  std::string packed;
  for (int layer = 0;; ++layer) {
    const Compression compression = compression_of(peeked->head());
    if (compression == Compression::kNone) break;
    if (layer == kMostLayers) throw ConfigError(input.name + ": compressed more than four times");
    packed += " in " + to_string(compression);
    peeked = std::make_unique<PeekedSource>(decompress(std::move(peeked), compression, input.name),
                                            kHeadBytes);
  }
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  std::string_view head = peeked->head();
  const bool marked = head.starts_with(kByteOrderMark) && format != TextFormat::kBytes;
  if (marked) head.remove_prefix(kByteOrderMark.size());
  input.format = format ? *format : recognise({input.name, head, peeked->head_is_all(), key});
  input.what = to_string(input.format) + packed;
  if (peeked->head().empty()) input.what = "empty" + packed;
  if (marked) {
    char mark[kByteOrderMark.size()];
    peeked->read(mark);
  }
  input.text = std::move(peeked);
  return input;
}

}  // namespace tessera
