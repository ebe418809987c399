#pragma once

// The same for the types of train_dataset that only data loaders have. Included by field_type.cpp
// only.

#include "tessera/config/fields/codec.h"

namespace tessera::codec {

template <>
struct Codec<TextOrAny> {
  using Type = std::optional<std::string>;
  static std::string name() { return "str or any"; }
  static Wrong read(const Value& value, Type& out) {
    out = is_scalar(value, ScalarType::kString) ? Type(value.text) : std::nullopt;
    return std::nullopt;
  }
  static std::string write(const Type& value) { return value ? write_string(*value) : "null"; }
};

template <>
struct Codec<PackingText> {
  using Type = std::string;
  static std::string name() { return "bool or str"; }
  static Wrong read(const Value& value, Type& out) {
    if (is_scalar(value, ScalarType::kBool)) {
      out = *parse_bool(value.text) ? "pack" : "";
      return std::nullopt;
    }
    if (!is_scalar(value, ScalarType::kString)) return must_be(name(), value);
    out = value.text;
    return std::nullopt;
  }
  static std::string write(const Type& value) {
    return value.empty() ? "false" : write_string(value);
  }
};

// Arguments stand beside the type, or below `args`; of a tokenizer's section only its folder
// counts.
template <>
struct Codec<DataHandler> {
  using Type = DataHandler;
  static std::string name() { return "dict with a type"; }
  static Wrong read(const Value& value, Type& out) {
    if (value.kind != Value::Kind::kMap) return must_be(name(), value);
    const Value* type = value.find("type");
    if (!type) return "needs a type";
    if (Wrong wrong = Codec<std::string>::read(*type, out.type)) return wrong;
    return read_arguments(value, out);
  }
  static std::string write(const Type& value) {
    std::string out = "{type: " + write_string(value.type);
    for (const auto& [key, texts] : value.args) {
      out += ", " + write_string(key) + ": " + write_list(texts, write_string);
    }
    return out + "}";
  }

 private:
  static Wrong read_arguments(const Value& value, Type& out) {
    for (const Value::Entry& entry : value.entries) {
      if (entry.key == "type") continue;
      if (entry.key == "args" && entry.value.kind == Value::Kind::kMap) {
        if (Wrong wrong = read_arguments(entry.value, out)) return wrong;
        continue;
      }
      const Value* folder =
          entry.key == "tokenizer" ? entry.value.find("pretrained_model_dir") : nullptr;
      std::vector<std::string>& texts = out.args[entry.key];
      if (Wrong wrong = read_texts(folder ? *folder : entry.value, texts)) {
        return entry.key + " " + *wrong;
      }
    }
    return std::nullopt;
  }
  static Wrong read_texts(const Value& value, std::vector<std::string>& texts) {
    if (value.kind == Value::Kind::kScalar && !value.is_null()) {
      texts = {value.text};
      return std::nullopt;
    }
    return Codec<LooseString>::read(value, texts);
  }
};

template <>
struct Codec<HandlerList> {
  using Type = std::vector<DataHandler>;
  static std::string name() { return "dict with a type or list of them"; }
  static Wrong read(const Value& value, Type& out) {
    if (value.kind != Value::Kind::kMap) {
      return read_list(value, out, Codec<DataHandler>::read, name());
    }
    DataHandler one;
    if (Wrong wrong = Codec<DataHandler>::read(value, one)) return wrong;
    out = {std::move(one)};
    return std::nullopt;
  }
  static std::string write(const Type& value) {
    return write_list(value, Codec<DataHandler>::write);
  }
};

template <>
struct Codec<std::vector<NewtonSchulzTriple>> {
  using Type = std::vector<NewtonSchulzTriple>;
  static std::string name() { return "three floats or list of [three floats, int]"; }
  static Wrong read_triple(const Value& value, NewtonSchulzTriple& out) {
    std::vector<double> numbers;
    if (Wrong wrong = Codec<std::vector<double>>::read(value, numbers)) return wrong;
    if (numbers.size() != 3) return "must be three numbers";
    out = {numbers[0], numbers[1], numbers[2], 0};
    return std::nullopt;
  }
  static Wrong read_counted(const Value& value, NewtonSchulzTriple& out) {
    const std::string form = "must be [[a, b, c], count]";
    if (value.kind != Value::Kind::kSequence || value.items.size() != 2) return form;
    if (Wrong wrong = read_triple(value.items[0], out)) return form + ": [a, b, c] " + *wrong;
    if (Wrong wrong = Codec<int64_t>::read(value.items[1], out.count)) {
      return form + ": count " + *wrong;
    }
    if (out.count < 1) return form + ": count must be at least 1";
    return std::nullopt;
  }
  static Wrong read(const Value& value, Type& out) {
    if (value.kind != Value::Kind::kSequence) return must_be(name(), value);
    const bool nested = !value.items.empty() && value.items.front().kind == Value::Kind::kSequence;
    if (nested) return read_list(value, out, read_counted, name());
    NewtonSchulzTriple triple;
    if (Wrong wrong = read_triple(value, triple)) return wrong;
    out = {triple};
    return std::nullopt;
  }
  static std::string write(const Type& value) {
    const auto numbers = [](const NewtonSchulzTriple& t) {
      return Codec<std::vector<double>>::write({t.a, t.b, t.c});
    };
    if (value.size() == 1 && value.front().count == 0) return numbers(value.front());
    return write_list(value, [&](const NewtonSchulzTriple& t) {
      return "[" + numbers(t) + ", " + std::to_string(t.count) + "]";
    });
  }
};

}  // namespace tessera::codec
