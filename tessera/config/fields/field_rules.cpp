#include "tessera/config/fields/field_rules.h"

#include <algorithm>
#include <cmath>

#include "tessera/config/suggest.h"

namespace tessera {
namespace {

std::vector<std::string> choices_of(const Field& field) {
  std::vector<std::string> list;
  std::string_view rest = field.choices;
  while (!rest.empty()) {
    const size_t comma = rest.find(", ");
    list.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 2);
  }
  return list;
}

std::string short_number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) {
    return std::to_string(static_cast<long long>(value));
  }
  return write_float(value);
}

}  // namespace

bool is_choice(const Field& field, std::string_view value) {
  const std::vector<std::string> list = choices_of(field);
  return list.empty() || std::ranges::find(list, value) != list.end();
}

std::string choice_rule(const Field& field) {
  const bool single = field.choices.find(',') == std::string_view::npos;
  return (single ? "must be " : "must be one of ") + std::string(field.choices);
}

std::string nearest_choice(const Field& field, std::string_view value) {
  return nearest_word(value, choices_of(field));
}

std::string unbuilt_rule(const Field& field) {
  if (field.part_of.empty()) return "is not built";
  return "is part of " + std::string(field.part_of) + ", which is not built";
}

bool in_bounds(const Field& field, double value) {
  if (std::isnan(value)) return false;
  if (field.exclusive) return value > field.minimum && value < field.maximum;
  return value >= field.minimum && value <= field.maximum;
}

std::string bounds_rule(const Field& field) {
  if (std::isinf(field.maximum)) {
    return (field.exclusive ? "must be above " : "must be at least ") + short_number(field.minimum);
  }
  return "must be between " + short_number(field.minimum) + " and " + short_number(field.maximum);
}

namespace {

// Values that switch nothing on: null, false, 0, "", [] and {}.
bool asks_for_nothing(const Value& value) {
  if (value.kind != Value::Kind::kScalar) return value.items.empty() && value.entries.empty();
  if (value.is_null()) return true;
  const auto number = parse_float(value.text);
  return value.text.empty() || (!value.quoted && (parse_bool(value.text) == false || number == 0));
}

}  // namespace

std::optional<std::string> check_unstored(const Field& field, const Value& value) {
  if (field.effect == Effect::kRefused) {
    if (asks_for_nothing(value)) return std::nullopt;
    return unbuilt_rule(field) + "; leave it out";
  }
  if (value.kind == Value::Kind::kSequence) {
    for (const Value& item : value.items) {
      if (auto wrong = check_unstored(field, item)) return wrong;
    }
    return std::nullopt;
  }
  if (value.kind != Value::Kind::kScalar || value.is_null()) return std::nullopt;
  if (!is_choice(field, value.text)) return choice_rule(field);
  const bool bounded = !std::isinf(field.minimum) || !std::isinf(field.maximum);
  if (bounded) {
    const auto number = parse_float(value.text);
    if (number && !in_bounds(field, *number)) return bounds_rule(field);
  }
  return std::nullopt;
}

}  // namespace tessera
