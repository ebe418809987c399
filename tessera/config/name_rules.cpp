#include "tessera/config/name_rules.h"

#include <fnmatch.h>

#include <algorithm>

#include "tessera/config/mindformers_name.h"

namespace tessera {

bool name_matches(const std::vector<std::string>& rules, const std::string& name) {
  const std::string other = mindformers_name(name);
  return std::ranges::any_of(rules, [&](const std::string& rule) {
    for (const std::string& text : {name, other}) {
      if (text.find(rule) != std::string::npos || fnmatch(rule.c_str(), text.c_str(), 0) == 0) {
        return true;
      }
    }
    return false;
  });
}

}  // namespace tessera
