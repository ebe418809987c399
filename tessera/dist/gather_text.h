#pragma once

#include <string>
#include <vector>

#include "tessera/dist/process_group.h"

namespace tessera {

/// The texts of all members, in order, on every member; collective. Texts hold no zero byte.
std::vector<std::string> gather_texts(const ProcessGroup& group, const std::string& text);

}  // namespace tessera
