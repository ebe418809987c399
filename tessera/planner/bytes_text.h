#pragma once

#include <cstdint>
#include <string>

namespace tessera {

/// "1.23 GB": powers of 1000, three digits.
std::string bytes_text(int64_t bytes);

}  // namespace tessera
