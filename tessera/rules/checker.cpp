#include "tessera/rules/checker.h"

#include <algorithm>

#include "tessera/config/fields/field.h"

namespace tessera {

Source Checker::source_of(const std::string& path) const {
  for (const std::string& key : {path, std::string()}) {
    if (const auto found = provenance_.find(key); found != provenance_.end()) return found->second;
  }
  return {};
}

void Checker::add(Severity severity, std::string_view path, std::string value, std::string rule,
                  std::string nearest) {
  Issue issue;
  issue.severity = severity;
  issue.field = path;
  issue.source = source_of(issue.field);
  issue.value = std::move(value);
  issue.rule = std::move(rule);
  issue.nearest = std::move(nearest);
  issues_.push_back(std::move(issue));
  if (severity == Severity::kError) bad_.emplace(path);
}

namespace {

std::string value_of(const Config& config, std::string_view path) {
  const Field* field = find_field(path);
  return field && field->address ? field->type->write(field->address_in(config)) : "";
}

}  // namespace

void Checker::error(std::string_view path, std::string rule, std::string nearest) {
  add(Severity::kError, path, value_of(config, path), std::move(rule), std::move(nearest));
}

void Checker::warning(std::string_view path, std::string rule, std::string nearest) {
  add(Severity::kWarning, path, value_of(config, path), std::move(rule), std::move(nearest));
}

void Checker::error_at(std::string_view path, int64_t item, std::string value, std::string rule) {
  bad_.emplace(path);
  add(Severity::kError, std::string(path) + "[" + std::to_string(item) + "]", std::move(value),
      std::move(rule), "");
}

void Checker::general(Severity severity, std::string rule) {
  add(severity, "", "", std::move(rule), "");
}

bool Checker::good(std::initializer_list<std::string_view> paths) const {
  return std::ranges::none_of(paths, [this](std::string_view path) { return bad_.contains(path); });
}

std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> low, high;
  for (int64_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    low.push_back(d);
    if (d * d != number) high.push_back(number / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

std::string nearest_of(std::vector<int64_t> values, int64_t asked) {
  constexpr size_t kMost = 6;
  const auto distance = [asked](int64_t value) {
    return value > asked ? static_cast<double>(value) - static_cast<double>(asked)
                         : static_cast<double>(asked) - static_cast<double>(value);
  };
  std::ranges::stable_sort(values, {}, distance);
  if (values.size() > kMost) values.resize(kMost);
  std::ranges::sort(values);
  std::string out;
  for (const int64_t value : values) out += (out.empty() ? "" : ", ") + std::to_string(value);
  return out;
}

std::string nearest_divisors(int64_t number, int64_t asked) {
  return nearest_of(divisors(number), asked);
}

}  // namespace tessera
