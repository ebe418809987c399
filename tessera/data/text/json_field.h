#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

/// What is wrong with a piece of text, and at which of its bytes (from 0).
struct TextFault {
  std::string why;
  size_t at = 0;
};

/// Reads field `key` of the JSON object that is `line` into `text`; of a key that is there twice
/// the last one counts, as in Python. Other fields need only be well-formed: a number may be too
/// large, a string may hold lone surrogates or bytes that are no UTF-8. Returns what is wrong, if
/// anything.
std::optional<TextFault> read_json_field(std::string_view line, std::string_view key,
                                         std::string& text);

enum class JsonStart {
  kObject,      // a whole object and nothing else
  kValue,       // a whole value of another kind
  kUnfinished,  // right as far as it goes
  kNone,
};

/// What `line` is, as JSON.
JsonStart json_start(std::string_view line);

}  // namespace tessera
