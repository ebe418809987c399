#pragma once

#include <string>

namespace tessera {

/// Whether `text` holds no, one or several documents (2 stands for all larger numbers). Reads all
/// of a single one. Throws YAML::ParserException, with the place, for what is not valid YAML; this
/// includes signs at which the library's own loop over documents stays without end, such as a comma
/// outside of brackets.
int count_documents(const std::string& text);

}  // namespace tessera
