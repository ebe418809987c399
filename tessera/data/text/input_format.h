#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tessera/data/text/binary_kinds.h"

namespace tessera {

enum class TextFormat {
  kText,       // the whole input is one document, in UTF-8
  kBytes,      // the same, whatever its bytes are
  kJsonLines,  // every line is a JSON object with a document in one of its fields
};

/// "text", "bytes taken as text", "JSON lines".
std::string to_string(TextFormat format);

/// What is known of an input before it is read.
struct InputHead {
  std::string name;       // a file's path: its ending decides only where the content does not
  std::string_view head;  // the first bytes, decompressed
  bool whole = false;     // head is all there is
  std::string_view key;   // the field of JSON lines that holds the text
};

/// Recognises the format by the content. Throws ConfigError on content that is no plain text or
/// JSON lines (binary, csv, tsv, a JSON array, a JSON object over several lines), and says what to
/// do instead.
TextFormat recognise(const InputHead& input);

/// How columns or JSON over many lines show in the first lines, if they do.
std::optional<RefusedKind> refused_table(const InputHead& input);

}  // namespace tessera
