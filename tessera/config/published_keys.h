#pragma once

// Keys of a published config.json that are not taken into the model: those without effect on
// training, and those of which one value is what is built.

#include <string_view>
#include <vector>

#include "tessera/config/issue.h"
#include "tessera/config/yaml/value.h"

namespace tessera {

/// Whether a key says nothing about how the model is trained (tokens' ids, settings of generation,
/// facts of the software that wrote the file, dropout, which a training file gives).
bool has_no_effect(std::string_view key);

/// Whether the key is one of which only some values are built; those that are not are appended to
/// `issues`.
bool check_published_key(const Value::Entry& entry, std::vector<Issue>& issues);

}  // namespace tessera
