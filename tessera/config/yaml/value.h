#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/config/issue.h"

namespace tessera {

/// What a scalar is, by the rules of YAML 1.1 as its readers in Python apply them, with one
/// exception: 1e-8, a string there, is a float here.
enum class ScalarType { kNull, kBool, kInt, kFloat, kString };

/// One node of a YAML or JSON document, with the place it was written at. Aliases and merge keys
/// are expanded.
struct Value {
  enum class Kind { kScalar, kSequence, kMap };
  struct Entry;

  Kind kind = Kind::kScalar;
  std::string text;            // of a scalar
  bool quoted = false;         // of a scalar: a string whatever it looks like
  std::vector<Value> items;    // of a sequence
  std::vector<Entry> entries;  // of a map, in file order
  Source source;

  bool is_null() const;
  ScalarType scalar_type() const;  // of a scalar

  /// Of a map; nullptr when absent.
  const Value* find(std::string_view key) const;
  Value* find(std::string_view key);
};

struct Value::Entry {
  std::string key;
  Source source;  // of the key
  Value value;
};

/// "int", "float", "bool", "null", "str", "list" or "dict".
std::string type_name_of(const Value& value);

/// The value on one line, for messages: flow style, cut after about 60 characters.
std::string display(const Value& value);

std::optional<bool> parse_bool(std::string_view text);
std::optional<long long> parse_int(std::string_view text);  // none: not an int, or out of range
std::optional<double> parse_float(std::string_view text);   // also of an int

/// Parses a document (YAML, of which JSON is a part). What is wrong (syntax, keys that are no
/// strings, duplicate keys) is appended to `issues`; the rest is still returned. `name` stands for
/// the file in messages.
Value parse_document(const std::string& text, const std::string& name, std::vector<Issue>& issues);

/// The value of a --set: `source_name` in place of file and line.
Value parse_inline(const std::string& text, const std::string& source_name,
                   std::vector<Issue>& issues);

}  // namespace tessera
