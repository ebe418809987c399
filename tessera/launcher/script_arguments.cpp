#include "tessera/launcher/script_arguments.h"

#include <algorithm>
#include <optional>

#include "tessera/base/error.h"
#include "tessera/launcher/program_path.h"

namespace tessera {
namespace {

struct Pair {
  std::string flag;
  std::optional<std::string> value;
};

std::vector<Pair> pair_up(const std::vector<std::string>& arguments, std::string& problems) {
  std::vector<Pair> pairs;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!argument.starts_with("-")) {
      problems += "\n" + argument + ": a value without a flag";
      continue;
    }
    const size_t equal = argument.find('=');
    if (equal != std::string::npos) {
      pairs.push_back({argument.substr(0, equal), argument.substr(equal + 1)});
    } else if (i + 1 < arguments.size() && !arguments[i + 1].starts_with("--")) {
      pairs.push_back({argument, arguments[i + 1]});
      ++i;
    } else {
      pairs.push_back({argument, std::nullopt});
    }
  }
  return pairs;
}

}  // namespace

ScriptArguments parse_script_arguments(const std::vector<std::string>& arguments) {
  ScriptArguments script;
  std::string problems;
  for (const Pair& pair : pair_up(arguments, problems)) {
    if (pair.flag == "--help" || pair.flag == "-h") {
      script.help = true;
      return script;
    }
    if (!pair.value) {
      problems += "\n" + pair.flag + ": has no value";
    } else if (pair.flag == "--config") {
      script.config = *pair.value;
    } else if (pair.flag == "--mode") {
      if (*pair.value != "1") {
        problems += "\n--mode " + *pair.value + ": only 1 (dynamic graph) is there";
      }
    } else if (pair.flag == "--set") {
      script.overrides.push_back(*pair.value);
    } else if (pair.flag == "--trace") {
      script.trace = *pair.value;
    } else if (std::find(script.no_effect.begin(), script.no_effect.end(), pair.flag) ==
               script.no_effect.end()) {
      script.no_effect.push_back(pair.flag);
    }
  }
  if (script.config.empty()) problems += "\n--config FILE is missing";
  if (!problems.empty()) throw ConfigError("the arguments of the script are wrong" + problems);
  return script;
}

std::string script_help() {
  return "Trains what a configuration says, as a worker of a launcher or as one rank.\n"
         "Usage: run_mindformer.py --config FILE [--mode 1] [--set section.field=value]... "
         "[--trace FILE]\n\n"
         "  --config FILE       the configuration (YAML), relative to the working directory\n"
         "  --mode 1            dynamic graph, the only mode\n"
         "  --set a.b=value     replaces one value of the file; may be repeated\n"
         "  --trace FILE        writes a timeline of the run\n"
         "Other flags of the form --flag value are accepted and have no effect.\n\n"
         "Examples:\n"
         "  run_mindformer.py --config x.yaml --mode 1\n"
         "  msrun --worker_num=8 --local_worker_num=8 --master_port=8118 --join=True \\\n"
         "      run_mindformer.py --config x.yaml --mode 1\n";
}

std::vector<std::string> engine_command(const ScriptArguments& script) {
  std::vector<std::string> command = {sibling_program("tessera-engine"), "train", "--config",
                                      script.config};
  for (const std::string& item : script.overrides) {
    command.push_back("--set");
    command.push_back(item);
  }
  if (!script.trace.empty()) {
    command.push_back("--trace");
    command.push_back(script.trace);
  }
  return command;
}

}  // namespace tessera
