#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/config/issue.h"
#include "tessera/planner/machine/machine.h"

namespace tessera {

/// A machine as its files say it, and all that is wrong with them.
struct MachineResult {
  Machine machine;
  std::vector<Issue> issues;
  /// Fields of numbers without a source: a file that was not measured must not have any.
  std::vector<std::string> unsourced;

  bool ok() const { return !has_errors(issues); }
};

/// Reads machine files; a later one replaces what it says of an earlier one (a file may hold
/// nothing but another network). A number stands alone or as {value, source}. Never throws for what
/// the user wrote.
MachineResult read_machine(const std::vector<std::string>& paths);

/// The same of texts; `names` stand for the files in messages.
MachineResult read_machine_texts(const std::vector<std::string>& texts,
                                 const std::vector<std::string>& names);

/// The text of a file that is read as the same machine.
std::string machine_yaml(const Machine& machine);

/// Where `tessera calibrate` writes and plans look: $XDG_CONFIG_HOME/tessera/machine.yaml, else
/// ~/.config/tessera/machine.yaml; empty without a home.
std::string default_machine_path();

/// Name of the host, its processor, and how many cores there are: "box, Xeon ..., 8 cores".
std::string machine_description();

/// One line for a person who plans with numbers of another host; empty: there is nothing to say.
std::string machine_warning(const Machine& machine);

/// The machine of `paths`, else the one at the default place if there is one; throws ConfigError
/// with all that is wrong. Without paths and file: nothing.
std::optional<Machine> find_machine(const std::vector<std::string>& paths);

}  // namespace tessera
