#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`.
int edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word`, empty when none is near (about a third of its letters).
std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

/// What an unknown key was meant to be: a key of its section, else the path of a key of another
/// section; empty when nothing is near.
std::string suggest_key(std::string_view section, std::string_view name);

}  // namespace tessera
