#pragma once

#include <optional>
#include <string>

#include "tessera/config/fields/field.h"

namespace tessera {

/// Whether `value` is one of field.choices; true for a field without choices.
bool is_choice(const Field& field, std::string_view value);

/// "must be one of a, b, c" or "must be a".
std::string choice_rule(const Field& field);

/// The choice nearest to `value`, empty when none is near.
std::string nearest_choice(const Field& field, std::string_view value);

/// "is not built" or "is part of DeepSeek-V4, which is not built", of a key that is refused.
std::string unbuilt_rule(const Field& field);

bool in_bounds(const Field& field, double value);

/// "must be at least 1", "must be between 0 and 1", ...
std::string bounds_rule(const Field& field);

/// What is wrong with a value that is not stored: choices and bounds of it or of its items.
std::optional<std::string> check_unstored(const Field& field, const Value& value);

}  // namespace tessera
