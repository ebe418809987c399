#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "tessera/data/text/input_format.h"

namespace tessera {

namespace {

// Whether the name has `.csv` or the like as one of its last endings.
bool named(const std::string& name, const std::string& ending) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const size_t at = lower.rfind(ending);
  if (at == std::string::npos) return false;
  const size_t end = at + ending.size();
  return (end == lower.size() || lower[end] == '.') && lower.find('/', end) == std::string::npos;
}

// The fields of a line of column names, or nothing if it is no such line: words of letters, digits,
// _ and -, in quotation marks or not.
std::vector<std::string> column_names(std::string_view line, char separator) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  std::vector<std::string> names(1);
  for (const char c : line) {
    if (c == separator) {
      names.emplace_back();
    } else if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-') {
      names.back() += c;
    } else if (c != '"') {
      return {};
    }
  }
  for (const std::string& name : names) {
    if (name.empty()) return {};
  }
  return names.size() > 1 ? names : std::vector<std::string>{};
}

// Column names in the first line, and the next line has as many separators or names are told that
// the reader asks for.
bool looks_like_columns(const InputHead& input, char separator) {
  std::string_view head = input.head;
  const size_t end = head.find('\n');
  if (end == std::string_view::npos) return false;
  const auto names = column_names(head.substr(0, end), separator);
  if (names.empty()) return false;
  if (std::find(names.begin(), names.end(), input.key) != names.end()) return true;
  const std::string_view second = head.substr(end + 1, head.find('\n', end + 1) - end - 1);
  const auto separators = std::count(second.begin(), second.end(), separator);
  return separators + 1 >= static_cast<int64_t>(names.size()) && names.size() > 2;
}

RefusedKind refusal(const char* what, const char* delimiter) {
  return {what, std::string("make JSON lines of it: python3 -c 'import csv, json, sys; "
                            "csv.field_size_limit(2**31); [print(json.dumps(row)) for row in "
                            "csv.DictReader(sys.stdin") +
                    delimiter +
                    ")]' < FILE | tessera preprocess --input - ...; or take it as one document: "
                    "--format text"};
}

}  // namespace

std::optional<RefusedKind> refused_table(const InputHead& input) {
  if (named(input.name, ".tsv") || looks_like_columns(input, '\t')) {
    return refusal("a table with tabs (tsv)", ", delimiter=\"\\t\"");
  }
  if (named(input.name, ".csv") || looks_like_columns(input, ',')) {
    return refusal("a table with commas (csv)", "");
  }
  return std::nullopt;
}

}  // namespace tessera
