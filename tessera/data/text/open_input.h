#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tessera/data/text/byte_source.h"
#include "tessera/data/text/input_format.h"

namespace tessera {

/// An input, recognised and ready to be read from its first byte of text.
struct OpenInput {
  std::string name;
  std::string what;  // "JSON lines in gzip"
  TextFormat format = TextFormat::kText;
  const FileSource* file = nullptr;  // what `text` reads in the end: how far it is
  std::unique_ptr<ByteSource> text;  // decompressed, without a byte-order mark
};

/// Opens a path or "-" and recognises it, unless `format` says what it is. `key` is the field of
/// JSON lines with the text. Throws ConfigError as FileSource, decompress() and recognise() do.
OpenInput open_input(const std::string& path, std::optional<TextFormat> format,
                     const std::string& key);

}  // namespace tessera
