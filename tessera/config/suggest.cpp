#include "tessera/config/suggest.h"

#include <algorithm>

#include "tessera/config/fields/field.h"

namespace tessera {

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> two_back(b.size() + 1), back(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) back[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({back[j] + 1, row[j - 1] + 1, back[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], two_back[j - 2] + 1);
      }
    }
    two_back.swap(back);
    back.swap(row);
  }
  return back[b.size()];
}

std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr size_t kLongest = 100;  // longer words are no slip of a key
  if (word.size() > kLongest) return "";
  std::string best;
  int best_distance = std::max<int>(1, static_cast<int>(word.size()) / 3) + 1;
  for (const std::string& candidate : candidates) {
    const int distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string suggest_key(std::string_view section, std::string_view name) {
  const std::string near = nearest_word(name, names_in(section));
  const int near_distance = near.empty() ? 1000 : edit_distance(name, near);
  std::string best = near;
  int best_distance = near_distance;
  if (name.size() > 100 || name.size() < 4) return best;
  for (const Field& field : all_fields()) {
    const std::string_view last = field.path.substr(field.path.rfind('.') + 1);
    const int distance = edit_distance(name, last);
    // Another section only for what is as good as exact there and clearly worse here.
    if (distance <= 1 && distance + 1 < best_distance) {
      best_distance = distance;
      best = field.path;
    }
  }
  return best;
}

}  // namespace tessera
