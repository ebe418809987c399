#pragma once

#include <string>

#include "tessera/planner/search/search.h"

namespace tessera {

/// One screen for a person.
std::string to_text(const SearchResult& result);

/// The whole result as a JSON object.
std::string to_json(const SearchResult& result);

/// Bytes of "80GiB", "80GB", "512MiB", "8e10". Throws ConfigError that names `flag`.
double bytes_of_flag(const std::string& flag, const std::string& text);

}  // namespace tessera
