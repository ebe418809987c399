#include "tessera/config/yaml/value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace tessera {
namespace {

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string without_underscores(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c != '_') out += c;
  }
  return out;
}

// Sign, then decimal digits and underscores; 0x.., 0b..; a leading zero is not accepted (octal in
// YAML 1.1, decimal in 1.2).
bool looks_like_int(std::string_view text) {
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) text.remove_prefix(1);
  if (text.empty() || !is_digit(text[0])) return false;
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'b')) {
    const std::string_view digits = text[1] == 'x' ? "0123456789abcdefABCDEF_" : "01_";
    return text.find_first_not_of(digits, 2) == std::string_view::npos;
  }
  return (text.size() == 1 || text[0] != '0') &&
         text.find_first_not_of("0123456789_") == std::string_view::npos;
}

bool looks_like_float(std::string_view text) {
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) text.remove_prefix(1);
  if (is_one_of(text, {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"})) return true;
  size_t digits = 0, dots = 0, at = 0;
  for (; at < text.size() && (is_digit(text[at]) || text[at] == '_' || text[at] == '.'); ++at) {
    if (is_digit(text[at])) ++digits;
    if (text[at] == '.') ++dots;
  }
  if (digits == 0 || dots > 1 || text[0] == '_') return false;
  if (at == text.size()) return dots == 1;
  if (text[at] != 'e' && text[at] != 'E') return false;
  ++at;
  if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
  return at < text.size() && std::all_of(text.begin() + at, text.end(), is_digit);
}

}  // namespace

std::optional<bool> parse_bool(std::string_view text) {
  if (is_one_of(text, {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})) return true;
  if (is_one_of(text, {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})) {
    return false;
  }
  return std::nullopt;
}

std::optional<long long> parse_int(std::string_view text) {
  if (!looks_like_int(text)) return std::nullopt;
  const bool negative = text[0] == '-';
  if (text[0] == '+' || text[0] == '-') text.remove_prefix(1);
  int base = 10;
  if (text.size() > 2 && (text[1] == 'x' || text[1] == 'b')) {
    base = text[1] == 'x' ? 16 : 2;
    text.remove_prefix(2);
  }
  const std::string digits = (negative ? "-" : "") + without_underscores(text);
  long long value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_float(std::string_view text) {
  if (looks_like_int(text)) {
    if (const auto value = parse_int(text)) return static_cast<double>(*value);
  } else if (!looks_like_float(text)) {
    return std::nullopt;
  }
  std::string digits = without_underscores(text);
  if (digits[0] == '+') digits.erase(0, 1);
  const std::string magnitude = digits[0] == '-' ? digits.substr(1) : digits;
  const double sign = digits[0] == '-' ? -1.0 : 1.0;
  if (is_one_of(magnitude, {".inf", ".Inf", ".INF"})) {
    return sign * std::numeric_limits<double>::infinity();
  }
  if (is_one_of(magnitude, {".nan", ".NaN", ".NAN"})) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  double value = 0.0;
  const auto [end, error] =
      std::from_chars(magnitude.data(), magnitude.data() + magnitude.size(), value);
  if (error == std::errc::result_out_of_range) {
    return sign * std::numeric_limits<double>::infinity();
  }
  if (error != std::errc() || end != magnitude.data() + magnitude.size()) return std::nullopt;
  return sign * value;
}

ScalarType Value::scalar_type() const {
  if (quoted) return ScalarType::kString;
  if (is_one_of(text, {"", "~", "null", "Null", "NULL"})) return ScalarType::kNull;
  if (parse_bool(text)) return ScalarType::kBool;
  if (looks_like_int(text)) return ScalarType::kInt;
  if (looks_like_float(text)) return ScalarType::kFloat;
  return ScalarType::kString;
}

bool Value::is_null() const { return kind == Kind::kScalar && scalar_type() == ScalarType::kNull; }

const Value* Value::find(std::string_view key) const {
  for (const Entry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

Value* Value::find(std::string_view key) {
  return const_cast<Value*>(std::as_const(*this).find(key));
}

std::string type_name_of(const Value& value) {
  if (value.kind == Value::Kind::kSequence) return "list";
  if (value.kind == Value::Kind::kMap) return "dict";
  switch (value.scalar_type()) {
    case ScalarType::kNull: return "null";
    case ScalarType::kBool: return "bool";
    case ScalarType::kInt: return "int";
    case ScalarType::kFloat: return "float";
    case ScalarType::kString: return "str";
  }
  return "str";
}

namespace {

void append_display(const Value& value, std::string& out, size_t limit) {
  if (out.size() > limit) return;
  switch (value.kind) {
    case Value::Kind::kScalar: {
      const bool quote = value.quoted && value.text.size() < limit;
      std::string text = value.is_null() ? "null" : value.text;
      std::replace_if(
          text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; },
          ' ');
      out += quote ? '"' + text + '"' : text;
      return;
    }
    case Value::Kind::kSequence: {
      const char* separator = "[";
      for (const Value& item : value.items) {
        out += separator;
        append_display(item, out, limit);
        separator = ", ";
      }
      out += value.items.empty() ? "[]" : "]";
      return;
    }
    case Value::Kind::kMap: {
      const char* separator = "{";
      for (const Value::Entry& entry : value.entries) {
        out += separator + entry.key + ": ";
        append_display(entry.value, out, limit);
        separator = ", ";
      }
      out += value.entries.empty() ? "{}" : "}";
      return;
    }
  }
}

}  // namespace

std::string display(const Value& value) {
  constexpr size_t kLimit = 60;
  std::string out;
  append_display(value, out, kLimit);
  if (out.size() > kLimit + 3) {
    size_t cut = kLimit;
    while (cut > 0 && (static_cast<unsigned char>(out[cut]) & 0xC0) == 0x80) --cut;  // UTF-8
    out = out.substr(0, cut) + "...";
  }
  return out;
}

}  // namespace tessera
