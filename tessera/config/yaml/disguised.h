#pragma once

#include <string>
#include <string_view>

#include "tessera/config/issue.h"

namespace tessera {

/// Adds to an issue of a YAML text what is hard to see in the line of the issue or in one close by:
/// a tab that indents, a full-width colon, a no-break space, a curly quote. The issue then names
/// the line where that is. `issue.source.line` 0: the first such line of the text is taken.
void hint_at_disguised(Issue& issue, const std::string& text);

/// Whether a text without quotes begins with a curly quote or a space that is no plain one.
bool begins_disguised(std::string_view text);

}  // namespace tessera
