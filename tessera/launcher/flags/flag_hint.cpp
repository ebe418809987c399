#include "tessera/launcher/flags/flag_hint.h"

#include "tessera/config/suggest.h"

namespace tessera {

std::string word_hint(const std::string& word, const std::vector<std::string>& known) {
  const std::string nearest = nearest_word(word, known);
  return nearest.empty() ? "" : "; did you mean " + nearest + "?";
}

}  // namespace tessera
