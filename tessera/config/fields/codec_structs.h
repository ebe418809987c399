#pragma once

// The same for values that are dicts, and lists of them. Included by field_type.cpp only.

#include "tessera/config/fields/codec.h"

namespace tessera::codec {

template <>
struct Codec<CallbackConfig> {
  using Type = CallbackConfig;
  static std::string name() { return "dict with a type"; }
  static Wrong read(const Value& value, Type& out) {
    if (value.kind != Value::Kind::kMap) return must_be(name(), value);
    Type callback;
    bool has_type = false;
    for (const Value::Entry& entry : value.entries) {
      Wrong wrong;
      if (entry.key == "type") {
        wrong = Codec<std::string>::read(entry.value, callback.type);
        has_type = true;
      } else if (entry.key == "step_interval") {
        wrong = Codec<int64_t>::read(entry.value, callback.step_interval);
      } else if (entry.key == "enable_logging") {
        wrong = Codec<bool>::read(entry.value, callback.enable_logging);
      } else {
        return "has an unknown key " + entry.key +
               "; known are type, step_interval, enable_logging";
      }
      if (wrong) return entry.key + " " + *wrong;
    }
    if (!has_type) return "needs a type";
    out = std::move(callback);
    return std::nullopt;
  }
  static std::string write(const Type& value) {
    const Type defaults;
    std::string out = "{type: " + write_string(value.type);
    if (value.step_interval != defaults.step_interval) {
      out += ", step_interval: " + std::to_string(value.step_interval);
    }
    if (value.enable_logging != defaults.enable_logging) out += ", enable_logging: false";
    return out + "}";
  }
};

template <>
struct Codec<InitStdRule> {
  using Type = InitStdRule;
  static std::string name() { return "dict of target and init_method_std"; }
  static Wrong read(const Value& value, Type& out) {
    if (value.kind != Value::Kind::kMap) return must_be(name(), value);
    Type rule;
    const Value* target = value.find("target");
    const Value* deviation = value.find("init_method_std");
    if (!target || !deviation || value.entries.size() != 2) {
      return "must have the keys target and init_method_std, and no other";
    }
    if (Wrong wrong = Codec<std::string>::read(*target, rule.target)) return "target " + *wrong;
    if (Wrong wrong = Codec<double>::read(*deviation, rule.init_method_std)) {
      return "init_method_std " + *wrong;
    }
    out = std::move(rule);
    return std::nullopt;
  }
  static std::string write(const Type& value) {
    return "{target: " + write_string(value.target) +
           ", init_method_std: " + write_float(value.init_method_std) + "}";
  }
};

template <>
struct Codec<PromptRecord> {
  using Type = PromptRecord;
  static std::string name() { return "dict of instruction and input"; }
  static Wrong read(const Value& value, Type& out) {
    if (is_scalar(value, ScalarType::kString)) {
      out.instruction = value.text;
      return std::nullopt;
    }
    if (value.kind != Value::Kind::kMap) return must_be("str or " + name(), value);
    for (const auto& entry : value.entries) {
      std::string* target = entry.key == "instruction" ? &out.instruction
                            : entry.key == "input"     ? &out.input
                                                       : nullptr;
      if (target == nullptr) return "has a key that is neither instruction nor input: " + entry.key;
      if (Wrong wrong = Codec<std::string>::read(entry.value, *target)) {
        return entry.key + " " + *wrong;
      }
    }
    return std::nullopt;
  }
  static std::string write(const Type& value) {
    return "{instruction: " + write_string(value.instruction) +
           ", input: " + write_string(value.input) + "}";
  }
};

template <>
struct Codec<PromptList> {
  using Type = std::vector<PromptRecord>;
  static std::string name() { return "str, dict, or list of these"; }
  static Wrong read(const Value& value, Type& out) {
    if (value.kind == Value::Kind::kSequence) {
      return read_list(value, out, Codec<PromptRecord>::read, name());
    }
    out.resize(1);
    return Codec<PromptRecord>::read(value, out[0]);
  }
  static std::string write(const Type& value) {
    return write_list(value, Codec<PromptRecord>::write);
  }
};

}  // namespace tessera::codec
