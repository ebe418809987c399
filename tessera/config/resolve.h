#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "tessera/config/config.h"
#include "tessera/config/optimizer_kind.h"

namespace tessera {

/// Whether a key was given, by the YAML, by --set or by a config.json.
using IsGiven = std::function<bool(std::string_view path)>;

/// Sets what depends on lr_scheduler.type; called before the section is read.
void set_lr_schedule_defaults(std::string_view type, LrSchedulerConfig& schedule);

/// Fills in what the file leaves to be derived: kv heads, lengths, rotary scaling out of the keys
/// that older files use, steps out of ratios, the mask switch that follows the data. The kind of
/// the optimizer is its row of `optimizers`. Overflows and divisions by zero of values that
/// validate will refuse are avoided.
void resolve(Config& config, const OptimizerTable& optimizers, const IsGiven& given);

}  // namespace tessera
