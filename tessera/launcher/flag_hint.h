#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tessera {

/// "; --rank: did you mean --ranks?" for the first argument that is a flag unknown to `app` and
/// near one that it has; else "".
std::string unknown_flag_hint(const CLI::App& app, const std::vector<std::string>& arguments);

/// The same for a word out of a list: "; did you mean train?".
std::string word_hint(const std::string& word, const std::vector<std::string>& known);

}  // namespace tessera
