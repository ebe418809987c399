#include "tessera/config/blend.h"

#include "tessera/config/value.h"

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
    double sum = 0.0;
    for (size_t i = 0; i < list.size(); i += 2) {
      const double weight = *parse_float(list[i]);
      if (!(weight >= 0.0) || weight > 1e300) problem = "weights must be finite, at least 0";
      sum += weight;
      blend.weights.push_back(weight);
      blend.prefixes.push_back(list[i + 1]);
    }
    if (problem.empty() && !(sum > 0.0)) problem = "the weights must not all be 0";
  }
  for (const std::string& prefix : blend.prefixes) {
    if (prefix.empty()) problem = "holds an empty name";
    if (parse_float(prefix)) problem = "holds the number " + prefix + " where a name should be";
  }
  return blend;
}

std::vector<double> parse_split(const std::string& split) {
  std::vector<double> parts;
  const std::string numeric = "0123456789.";
  for (size_t at = split.find_first_of(numeric); at != std::string::npos;) {
    size_t end = split.find_first_not_of(numeric, at);
    if (end == std::string::npos) end = split.size();
    const bool negative = at > 0 && split[at - 1] == '-';
    std::string digits = split.substr(at, end - at);
    if (const auto number =
            parse_float(digits.find('.') == std::string::npos ? digits + "." : digits)) {
      parts.push_back(negative ? -*number : *number);
    }
    at = split.find_first_of(numeric, end);
  }
  return parts;
}

}  // namespace tessera
