#pragma once

#include <string>

namespace tessera {

/// Path (without .bin and .idx) of the mask of token file `prefix`: a token file of uint8 with the
/// same sequences and documents, 1 where a token counts as a label. docs/data.md describes it.
inline std::string mask_prefix(const std::string& prefix) { return prefix + "_mask"; }

}  // namespace tessera
