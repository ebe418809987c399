#include "tessera/config/blend.h"

#include <algorithm>

#include "tessera/config/yaml/value.h"

namespace tessera {

Blend parse_blend(const std::vector<std::string>& list, std::string& problem) {
  Blend blend;
  if (list.empty()) {
    problem = "must name at least one token file";
    return blend;
  }
  size_t numbers = 0;
  for (size_t i = 0; i < list.size(); i += 2) numbers += parse_float(list[i]).has_value();
  if (list.size() % 2 == 1 || numbers == 0) {
    blend.prefixes = list;
  } else if (numbers != list.size() / 2) {
    problem = "mixes weights and names; write weight, prefix, weight, prefix, ...";
    return blend;
  } else {
    for (size_t i = 0; i < list.size(); i += 2) {
      const double weight = *parse_float(list[i]);
      if (!(weight > 0.0) || weight > 1e300) problem = "weights must be positive and finite";
      blend.weights.push_back(weight);
      blend.prefixes.push_back(list[i + 1]);
    }
  }
  for (const std::string& prefix : blend.prefixes) {
    if (prefix.empty()) problem = "holds an empty name";
    if (parse_float(prefix)) problem = "holds the number " + prefix + " where a name should be";
  }
  return blend;
}

std::vector<double> parse_split(const std::string& split, std::string& problem) {
  constexpr const char* kNumber = "-0123456789.";
  const size_t word = split.find_first_not_of("-0123456789.,;:/[]() \t");
  if (word != std::string::npos) {
    problem =
        "must hold plain numbers, as \"90,5,5\"; '" + split.substr(word, 1) + "' is no part of one";
    return {};
  }
  std::vector<double> parts;
  for (size_t at = split.find_first_of(kNumber); at != std::string::npos;) {
    const size_t end = std::min(split.find_first_not_of(kNumber, at), split.size());
    const std::string digits = split.substr(at, end - at);
    // A number without a point is read as one with it.
    const auto number = parse_float(digits.find('.') == std::string::npos ? digits + "." : digits);
    if (!number) {
      problem = "must hold plain numbers, as \"90,5,5\"; " + digits + " is none";
      return {};
    }
    parts.push_back(*number);
    at = split.find_first_of(kNumber, end);
  }
  if (parts.empty() || parts.size() > 3) {
    problem = "must hold one to three numbers, as \"90,5,5\"";
  } else if (std::ranges::any_of(parts, [](double part) { return part < 0; })) {
    problem = "must not hold a negative part";
  }
  return parts;
}

}  // namespace tessera
