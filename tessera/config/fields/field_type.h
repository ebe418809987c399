#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tessera/config/config.h"
#include "tessera/config/yaml/value.h"

namespace tessera {

/// How a C++ type is read from a Value and written as YAML.
struct FieldType {
  std::string_view name;  // "int", "float or null", "list of str", ...

  /// Stores `value` at `target` (a T*). Returns what is wrong ("must be int, not bool"); then
  /// `*target` is unchanged.
  std::optional<std::string> (*read)(const Value& value, void* target);

  /// Only checks the type.
  std::optional<std::string> (*check)(const Value& value);

  /// Flow style YAML on one line that `read` turns into the same value.
  std::string (*write)(const void* source);

  bool (*equal)(const void* a, const void* b);
  void (*copy)(const void* from, void* to);
};

/// Text that stands for a scalar which may be written as a number: a layer "3", a weight 0.5.
struct LooseString {};
/// A string or a list of strings; a single one is a list of one.
struct StringOrList {};
/// Anything: what is only accepted, never used.
struct AnyValue {};
/// A string; a value of another kind is accepted and not used.
struct TextOrAny {};
/// bool or str: true is "pack", false "".
struct PackingText {};
/// "90,5,5", or a list of numbers.
struct SplitText {};
/// A step of data handling, or a list of them.
struct HandlerList {};
/// bool, str or list of str.
struct NormSelector {};
/// Prompts: a text, {instruction, input}, or a list of texts or of these.
struct PromptList {};

/// Defined for the types that Config holds, and for the readings of a member that its C++ type
/// does not tell: LooseString for vector<string>, StringOrList, SplitText, NormSelector, TextOrAny,
/// PackingText; AnyValue.
template <typename T>
const FieldType& field_type();

/// YAML scalars on one line, quoted where needed.
std::string write_string(const std::string& text);
std::string write_float(double value);

}  // namespace tessera
