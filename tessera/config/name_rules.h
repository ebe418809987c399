#pragma once

// Rules of the file that pick parameters by their names.

#include <string>
#include <vector>

namespace tessera {

/// Whether one of `rules` matches the parameter of this Hugging Face name (stacked experts hold
/// "{e}"). A rule matches by equality, substring or glob, against that name or MindFormers' name.
bool name_matches(const std::vector<std::string>& rules, const std::string& name);

}  // namespace tessera
