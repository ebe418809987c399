#pragma once

#include <string_view>
#include <vector>

namespace tessera {

/// Keys of lr_scheduler that mean something to a schedule type, besides type and learning_rate.
/// Empty for an unknown type.
std::vector<std::string_view> lr_schedule_keys(std::string_view type);

bool is_lr_schedule_key(std::string_view type, std::string_view key);

}  // namespace tessera
