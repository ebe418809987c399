#include "tessera/launcher/flags/script_arguments.h"

#include <algorithm>

#include "tessera/base/error.h"

namespace tessera {
namespace {

// Those of `tessera train` that say what is trained; how many ranks there are says the launcher.
std::vector<Flag> flags_of_script(ScriptArguments& script, int64_t& mode) {
  std::vector<Flag> list = flags_of(static_cast<TrainFlags&>(script));
  std::erase_if(list, [](const Flag& flag) {
    return flag.name == "--ranks" || flag.reader != FlagReader::kBoth;
  });
  list.push_back(
      {.name = "--mode", .value = "1", .help = "dynamic graph, the only mode", .target = &mode});
  return list;
}

}  // namespace

ScriptArguments parse_script_arguments(const std::vector<std::string>& arguments) {
  ScriptArguments script;
  int64_t mode = 1;
  FlagRules rules;
  rules.last_counts = true;
  rules.unknown = &script.no_effect;
  const FlagProblems read = read_flags(flags_of_script(script, mode), arguments, rules);
  script.help = read.help;
  if (script.help) return script;
  std::string problems;
  for (const std::string& text : read.texts) problems += "\n" + text;
  if (mode != 1) {
    problems += "\n--mode " + std::to_string(mode) + ": only 1 (dynamic graph) is there";
  }
  if (!problems.empty()) throw ConfigError("the arguments of the script are wrong" + problems);
  return script;
}

std::string script_help() {
  ScriptArguments script;
  int64_t mode = 1;
  return flag_help("run_mindformer.py",
                   "Trains what a configuration says, as a worker of a launcher or as one rank.",
                   flags_of_script(script, mode),
                   "Other flags of the form --flag value are accepted and have no effect.\n\n"
                   "Examples:\n"
                   "  run_mindformer.py --config x.yaml --mode 1\n"
                   "  msrun --worker_num=8 --local_worker_num=8 --master_port=8118 --join=True \\\n"
                   "      run_mindformer.py --config x.yaml --mode 1\n");
}

std::vector<std::string> engine_command(const ScriptArguments& script) {
  TrainFlags flags = script;
  return engine_command("train", flags_of(flags));
}

}  // namespace tessera
