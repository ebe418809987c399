#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

/// Adds the line "  missing (3): a, b, c" to a report; nothing when there are no names.
void list_names(std::string& report, const std::string& kind,
                const std::vector<std::string>& names);

/// "[2, 3]"
std::string shape_text(const std::vector<int64_t>& shape);

/// A name with "{e}" for the expert, of one expert.
std::string with_expert(const std::string& pattern, int64_t expert);

}  // namespace tessera
