#pragma once

#include <string>
#include <vector>

namespace tessera {

/// "; did you mean train?" for a word near one of the list; else "".
std::string word_hint(const std::string& word, const std::vector<std::string>& known);

}  // namespace tessera
