#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera {

/// An input that `preprocess` does not read.
struct RefusedKind {
  std::string what;     // "a Parquet file"
  std::string instead;  // what to do, a sentence; FILE stands for the input
};

/// What the first bytes of an input say, if they are no text: a file of a known kind, UTF-16, or
/// binary of any other kind. Some hundred bytes are enough for the known kinds.
std::optional<RefusedKind> refused_binary(std::string_view head);

}  // namespace tessera
