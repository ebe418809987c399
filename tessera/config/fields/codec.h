#pragma once

// How each type of Config is read from a Value and written as YAML. Included by field_type.cpp
// only.

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tessera/config/fields/field_type.h"

namespace tessera::codec {

using Wrong = std::optional<std::string>;

Wrong must_be(std::string_view expected, const Value& value) {
  return "must be " + std::string(expected) + ", not " + type_name_of(value);
}

bool is_scalar(const Value& value, ScalarType type) {
  return value.kind == Value::Kind::kScalar && value.scalar_type() == type;
}

template <typename T>
struct Codec;

template <>
struct Codec<bool> {
  using Type = bool;
  static std::string name() { return "bool"; }
  static Wrong read(const Value& value, bool& out) {
    if (!is_scalar(value, ScalarType::kBool)) return must_be("bool", value);
    out = *parse_bool(value.text);
    return std::nullopt;
  }
  static std::string write(bool value) { return value ? "true" : "false"; }
};

template <>
struct Codec<int64_t> {
  using Type = int64_t;
  static std::string name() { return "int"; }
  static Wrong read(const Value& value, int64_t& out) {
    if (!is_scalar(value, ScalarType::kInt)) return must_be("int", value);
    const auto number = parse_int(value.text);
    if (!number) return "must be an int of at most 64 bits";
    out = *number;
    return std::nullopt;
  }
  static std::string write(int64_t value) { return std::to_string(value); }
};

template <>
struct Codec<double> {
  using Type = double;
  static std::string name() { return "float"; }
  static Wrong read(const Value& value, double& out) {
    if (!is_scalar(value, ScalarType::kFloat) && !is_scalar(value, ScalarType::kInt)) {
      return must_be("float", value);
    }
    const auto number = parse_float(value.text);
    if (!number || !std::isfinite(*number)) return "must be a finite number";
    out = *number;
    return std::nullopt;
  }
  static std::string write(double value) { return write_float(value); }
};

template <>
struct Codec<std::string> {
  using Type = std::string;
  static std::string name() { return "str"; }
  static Wrong read(const Value& value, std::string& out) {
    if (!is_scalar(value, ScalarType::kString)) return must_be("str", value);
    out = value.text;
    return std::nullopt;
  }
  static std::string write(const std::string& value) { return write_string(value); }
};

// A scalar of any type but null and bool, as text.
struct LooseText {
  static Wrong read(const Value& value, std::string& out) {
    if (is_scalar(value, ScalarType::kInt) || is_scalar(value, ScalarType::kFloat) ||
        is_scalar(value, ScalarType::kString)) {
      out = value.text;
      return std::nullopt;
    }
    return must_be("str", value);
  }
};

template <>
struct Codec<DType> {
  using Type = DType;
  static std::string name() { return "dtype"; }
  static Wrong read(const Value& value, DType& out) {
    if (!is_scalar(value, ScalarType::kString)) return must_be("str", value);
    const auto dtype = dtype_from_string(value.text);
    if (!dtype) return "must be one of float32, bfloat16, float64, float16";
    out = *dtype;
    return std::nullopt;
  }
  static std::string write(DType value) { return to_string(value); }
};

template <typename T>
struct Codec<std::optional<T>> {
  using Type = std::optional<typename Codec<T>::Type>;
  static std::string name() { return Codec<T>::name() + " or null"; }
  static Wrong read(const Value& value, Type& out) {
    if (value.is_null()) {
      out = std::nullopt;
      return std::nullopt;
    }
    typename Codec<T>::Type inner{};
    if (Wrong wrong = Codec<T>::read(value, inner)) return wrong;
    out = std::move(inner);
    return std::nullopt;
  }
  static std::string write(const Type& value) { return value ? Codec<T>::write(*value) : "null"; }
};

template <typename T, typename ReadItem>
Wrong read_list(const Value& value, std::vector<T>& out, ReadItem read_item,
                const std::string& name) {
  if (value.kind != Value::Kind::kSequence) return must_be(name, value);
  std::vector<T> items;
  for (const Value& item : value.items) {
    T element{};
    if (Wrong wrong = read_item(item, element)) {
      return "item " + std::to_string(items.size()) + " " + *wrong;
    }
    items.push_back(std::move(element));
  }
  out = std::move(items);
  return std::nullopt;
}

template <typename T, typename WriteItem>
std::string write_list(const std::vector<T>& items, WriteItem write_item) {
  std::string out = "[";
  for (const T& item : items) out += (out.size() > 1 ? ", " : "") + write_item(item);
  return out + "]";
}

template <typename T>
struct Codec<std::vector<T>> {
  using Type = std::vector<T>;
  static std::string name() { return "list of " + Codec<T>::name(); }
  static Wrong read(const Value& value, Type& out) {
    return read_list(value, out, Codec<T>::read, name());
  }
  static std::string write(const Type& value) { return write_list(value, Codec<T>::write); }
};

template <>
struct Codec<LooseString> {
  using Type = std::vector<std::string>;
  static std::string name() { return "list of str"; }
  static Wrong read(const Value& value, Type& out) {
    return read_list(value, out, LooseText::read, name());
  }
  static std::string write(const Type& value) { return write_list(value, write_string); }
};

template <>
struct Codec<StringOrList> {
  using Type = std::vector<std::string>;
  static std::string name() { return "str or list of str"; }
  static Wrong read(const Value& value, Type& out) {
    if (is_scalar(value, ScalarType::kString)) {
      out = {value.text};
      return std::nullopt;
    }
    return read_list(value, out, Codec<std::string>::read, name());
  }
  static std::string write(const Type& value) { return write_list(value, write_string); }
};

template <>
struct Codec<SplitText> {
  using Type = std::string;
  static std::string name() { return "str or list of float"; }
  static Wrong read(const Value& value, Type& out) {
    if (value.kind == Value::Kind::kSequence) {
      std::vector<double> parts;
      if (Wrong wrong = read_list(value, parts, Codec<double>::read, name())) return wrong;
      std::string text;
      for (const Value& item : value.items) text += (text.empty() ? "" : ",") + item.text;
      out = text;
      return std::nullopt;
    }
    if (LooseText::read(value, out)) return must_be(name(), value);
    return std::nullopt;
  }
  static std::string write(const Type& value) { return '"' + value + '"'; }
};

template <>
struct Codec<NormSelector> {
  using Type = std::vector<std::string>;
  static std::string name() { return "bool, str or list of str"; }
  static Wrong read(const Value& value, Type& out) {
    if (is_scalar(value, ScalarType::kBool)) {
      out = *parse_bool(value.text) ? Type{""} : Type{};
      return std::nullopt;
    }
    if (is_scalar(value, ScalarType::kString)) {
      out = value.text.empty() ? Type{} : Type{value.text};
      return std::nullopt;
    }
    return read_list(value, out, Codec<std::string>::read, name());
  }
  static std::string write(const Type& value) { return write_list(value, write_string); }
};

struct Nothing {
  bool operator==(const Nothing&) const = default;
};

template <>
struct Codec<AnyValue> {
  using Type = Nothing;
  static std::string name() { return "any"; }
  static Wrong read(const Value&, Type&) { return std::nullopt; }
  static std::string write(const Type&) { return "null"; }
};

template <>
struct Codec<std::map<std::string, std::vector<std::string>>> {
  using Type = std::map<std::string, std::vector<std::string>>;
  static std::string name() { return "dict of list of str"; }
  static Wrong read(const Value& value, Type& out) {
    if (value.kind != Value::Kind::kMap) return must_be(name(), value);
    Type entries;
    for (const Value::Entry& entry : value.entries) {
      std::vector<std::string> specs;
      std::string single;
      if (!LooseText::read(entry.value, single)) {
        specs = {single};
      } else if (Wrong wrong = Codec<LooseString>::read(entry.value, specs)) {
        return entry.key + " " + *wrong;
      }
      entries[entry.key] = std::move(specs);
    }
    out = std::move(entries);
    return std::nullopt;
  }
  static std::string write(const Type& value) {
    std::string out = "{";
    for (const auto& [key, specs] : value) {
      out +=
          (out.size() > 1 ? ", " : "") + write_string(key) + ": " + write_list(specs, write_string);
    }
    return out + "}";
  }
};

template <>
struct Codec<std::map<std::string, int64_t>> {
  using Type = std::map<std::string, int64_t>;
  static std::string name() { return "dict of int"; }
  static Wrong read(const Value& value, Type& out) {
    if (value.kind != Value::Kind::kMap) return must_be(name(), value);
    Type entries;
    for (const Value::Entry& entry : value.entries) {
      if (Wrong wrong = Codec<int64_t>::read(entry.value, entries[entry.key])) {
        return entry.key + " " + *wrong;
      }
    }
    out = std::move(entries);
    return std::nullopt;
  }
  static std::string write(const Type& value) {
    std::string out = "{";
    for (const auto& [key, number] : value) {
      out += (out.size() > 1 ? ", " : "") + write_string(key) + ": " + std::to_string(number);
    }
    return out + "}";
  }
};

template <>
struct Codec<LayersPerStage> {
  using Type = LayersPerStage;
  static std::string name() { return "auto or list of str"; }
  static Wrong read(const Value& value, Type& out) {
    Type layers;
    if (is_scalar(value, ScalarType::kString) && value.text == "auto") {
      layers.is_auto = true;
    } else if (Wrong wrong = read_list(value, layers.stages, LooseText::read, name())) {
      return wrong;
    }
    out = std::move(layers);
    return std::nullopt;
  }
  static std::string write(const Type& value) {
    return value.is_auto ? "auto" : write_list(value.stages, write_string);
  }
};

template <>
struct Codec<std::variant<int64_t, std::vector<int64_t>>> {
  using Type = std::variant<int64_t, std::vector<int64_t>>;
  static std::string name() { return "int or list of int"; }
  static Wrong read(const Value& value, Type& out) {
    std::vector<int64_t> list;
    int64_t number = 0;
    if (value.kind == Value::Kind::kSequence) {
      if (Wrong wrong = Codec<std::vector<int64_t>>::read(value, list)) return wrong;
      out = list;
      return std::nullopt;
    }
    if (!is_scalar(value, ScalarType::kInt)) return must_be(name(), value);
    if (Wrong wrong = Codec<int64_t>::read(value, number)) return wrong;
    out = number;
    return std::nullopt;
  }
  static std::string write(const Type& value) {
    if (const int64_t* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
    return Codec<std::vector<int64_t>>::write(std::get<std::vector<int64_t>>(value));
  }
};

}  // namespace tessera::codec
