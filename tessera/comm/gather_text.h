#pragma once

#include <string>
#include <vector>

#include "tessera/comm/process_group.h"

namespace tessera {

/// The texts of all members, in order, on every member; collective. Texts hold no zero byte.
std::vector<std::string> gather_texts(const ProcessGroup& group, const std::string& text);

/// The same on member `root` alone, where only that one reads them; an empty list on the others.
/// Texts hold any bytes.
std::vector<std::string> gather_texts_to(int root, const ProcessGroup& group,
                                         const std::string& text);

/// The text of member `root` on every member; collective. What the others give is not read.
std::string broadcast_text(int root, const ProcessGroup& group, const std::string& text);

}  // namespace tessera
