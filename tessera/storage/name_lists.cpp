#include "tessera/storage/name_lists.h"

#include <algorithm>

namespace tessera {
namespace {

constexpr size_t kListed = 20;  // names of one kind in an error

}  // namespace

void list_names(std::string& report, const std::string& kind,
                const std::vector<std::string>& names) {
  if (names.empty()) return;
  report += "\n  " + kind + " (" + std::to_string(names.size()) + "): ";
  for (size_t i = 0; i < std::min(names.size(), kListed); ++i) report += (i ? ", " : "") + names[i];
  if (names.size() > kListed) report += ", ...";
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string with_expert(const std::string& pattern, int64_t expert) {
  const size_t at = pattern.find("{e}");
  return pattern.substr(0, at) + std::to_string(expert) + pattern.substr(at + 3);
}

}  // namespace tessera
