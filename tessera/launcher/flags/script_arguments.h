#pragma once

#include <string>
#include <vector>

#include "tessera/launcher/flags/engine_flags.h"

namespace tessera {

/// What the training script (run_mindformer.py, or `tessera train` as a worker) was given.
struct ScriptArguments : TrainFlags {
  std::vector<std::string> no_effect;  // flags of the reference that change nothing here
  bool help = false;
};

/// Arguments after the script's name: --config, --mode (1 only), --set, --trace; --register_path
/// and whatever else comes as --flag value is collected in no_effect. Throws ConfigError with
/// everything that is wrong.
ScriptArguments parse_script_arguments(const std::vector<std::string>& arguments);

/// The help text of run_mindformer.py.
std::string script_help();

/// The command line of tessera-engine for such a run, its path first.
std::vector<std::string> engine_command(const ScriptArguments& script);

}  // namespace tessera
