#include "tessera/launcher/flag_hint.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "tessera/config/suggest.h"

namespace tessera {

std::string word_hint(const std::string& word, const std::vector<std::string>& known) {
  const std::string nearest = nearest_word(word, known);
  return nearest.empty() ? "" : "; did you mean " + nearest + "?";
}

std::string unknown_flag_hint(const CLI::App& app, const std::vector<std::string>& arguments) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) known.push_back(option->get_name());
  for (const std::string& argument : arguments) {
    if (!argument.starts_with("--")) continue;
    const std::string name = argument.substr(0, argument.find('='));
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    if (const std::string near = nearest_word(name, known); !near.empty()) {
      return "; " + name + ": did you mean " + near + "?";
    }
  }
  return "";
}

}  // namespace tessera
