// What the data section says in text: blends and splits.

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "tessera/base/error.h"
#include "tessera/data/blended_dataset.h"
#include "tessera/data/sample_source.h"

namespace tessera {

namespace {

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::optional<double> as_number(const std::string& text) {
  const std::string word = trimmed(text);
  if (word.empty()) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  if (*end != '\0') return std::nullopt;
  return value;
}

}  // namespace

Blend parse_blend(const std::vector<std::string>& data_path) {
  if (data_path.empty()) throw ConfigError("data_path is empty: at least one token file is needed");
  Blend blend;
  size_t numbers = 0;
  if (data_path.size() % 2 == 0) {
    for (size_t i = 0; i < data_path.size(); i += 2) numbers += as_number(data_path[i]).has_value();
  }
  if (numbers == 0) {
    for (const std::string& prefix : data_path) blend.prefixes.push_back(trimmed(prefix));
    return blend;
  }
  for (size_t i = 0; i < data_path.size(); i += 2) {
    const auto weight = as_number(data_path[i]);
    if (!weight) {
      throw ConfigError("data_path: \"" + data_path[i] + "\" (entry " + std::to_string(i + 1) +
                        ") should be a weight: either every prefix has one before it, or none has");
    }
    if (!(*weight > 0.0) || !std::isfinite(*weight)) {
      throw ConfigError("data_path: the weight of " + data_path[i + 1] + " is " + data_path[i] +
                        "; weights are positive");
    }
    blend.weights.push_back(*weight);
    blend.prefixes.push_back(trimmed(data_path[i + 1]));
  }
  return blend;
}

std::optional<SplitShare> split_share(const std::string& split, DatasetPhase phase) {
  std::vector<double> parts;
  constexpr const char* kDigits = "0123456789.";
  for (size_t at = split.find_first_of(kDigits); at != std::string::npos;) {
    const size_t end = std::min(split.find_first_not_of(kDigits, at), split.size());
    const auto part = as_number(split.substr(at, end - at));
    if (!part)
      throw ConfigError("split \"" + split + "\": " + split.substr(at, end - at) + " is no number");
    parts.push_back(*part);
    at = split.find_first_of(kDigits, end);
  }
  if (parts.empty() || parts.size() > 3 || split.find('-') != std::string::npos) {
    throw ConfigError("split \"" + split +
                      "\" should be one to three shares of train, valid and "
                      "test, none negative, such as \"90,5,5\"");
  }
  parts.resize(3, 0.0);
  if (parts[0] + parts[1] + parts[2] <= 0.0) {
    throw ConfigError("split \"" + split + "\" gives every phase nothing");
  }
  SplitShare share;
  share.end = 0.0;
  const std::vector<double> shares = normalized(parts);
  for (int i = 0; i <= static_cast<int>(phase); ++i) {
    share.begin = share.end;
    share.end = share.begin + shares[static_cast<size_t>(i)];
  }
  if (share.end <= share.begin) return std::nullopt;
  return share;
}

}  // namespace tessera
