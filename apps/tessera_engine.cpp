// The program that holds libtorch: trains, proves, exports. The front (`tessera`) checks file and
// flags in milliseconds, says all there is to say about them, and then becomes this one.

#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/checkpoint/hf_export.h"
#include "tessera/checkpoint/inspect.h"
#include "tessera/config/load.h"
#include "tessera/launcher/engine.h"
#include "tessera/launcher/flags/engine_flags.h"
#include "tessera/launcher/program_main.h"
#include "tessera/rules/validate.h"
#include "tessera/train/parity.h"
#include "tessera/train/run.h"

namespace tessera {
namespace {

// The file again, and every rule: this program may be started without the front.
Config checked_config(const RunFlags& flags, int64_t world) {
  ConfigResult result = load_config(flags.config, flags.overrides);
  std::vector<Issue> issues = result.issues;
  if (!has_errors(issues)) {
    for (const Issue& issue : validate(result.config, result.provenance, world)) {
      issues.push_back(issue);
    }
  }
  if (has_errors(issues)) {
    std::erase_if(issues, [](const Issue& issue) { return issue.severity != Severity::kError; });
    throw ConfigError(format_issues(issues));
  }
  return std::move(result.config);
}

int train(const TrainFlags& flags) {
  const WorldOfProcess world = world_of_process(flags.ranks);
  RunOptions options;
  options.worker = world.worker;
  options.secret = JobSecret::of(process_environment());
  if (world.worker) options.restarts = restarts_of(process_environment());
  options.thread_ranks = world.worker ? 1 : world.world;
  options.trace = flags.trace;
  if (!flags.plant.empty()) options.faults = parse_fault(flags.plant);
  return run_training(checked_config(flags, world.world), options);
}

int parity(const ParityFlags& flags) {
  ParityOptions options;
  options.ranks = flags.ranks.value_or(1);
  options.steps = flags.steps;
  options.dtype = *dtype_from_string(flags.dtype);
  if (!flags.plant.empty()) options.faults = parse_fault(flags.plant);
  const ParityReport report = run_parity(checked_config(flags, options.ranks), options);
  print_result(flags.json ? parity_json(report) : parity_text(report));
  return static_cast<int>(report.passed() ? ExitCode::kDone : ExitCode::kParity);
}

int export_checkpoint(const ExportFlags& flags) {
  HfExportOptions options;
  options.checkpoint = flags.checkpoint;
  options.output = flags.output;
  options.tokenizer = flags.tokenizer;
  options.shard_bytes = flags.shard_bytes;
  if (!flags.dtype.empty()) options.dtype = dtype_from_string(flags.dtype);
  print_result(export_to_hf(options));
  return static_cast<int>(ExitCode::kDone);
}

int inspect(const InspectFlags& flags) {
  const bool is_folder = std::filesystem::is_directory(flags.path);
  print_result((is_folder ? inspect_folder : inspect_weight_file)(flags.path, flags.verify));
  return static_cast<int>(ExitCode::kDone);
}

template <typename Flags>
int run_command(const std::string& name, const std::vector<std::string>& arguments,
                int (*command)(const Flags&)) {
  Flags flags;
  parse_flags(flags_of(flags), arguments, "tessera-engine " + name);
  return command(flags);
}

int engine_main(const std::vector<std::string>& arguments) {
  const std::string name = arguments.empty() ? "" : arguments.front();
  const std::vector<std::string> rest(arguments.begin() + (arguments.empty() ? 0 : 1),
                                      arguments.end());
  if (name == "train") return run_command(name, rest, train);
  if (name == "parity") return run_command(name, rest, parity);
  if (name == "export") return run_command(name, rest, export_checkpoint);
  if (name == "inspect") return run_command(name, rest, inspect);
  throw ConfigError("tessera-engine " + name + ": is started by tessera, not by hand");
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  return tessera::run_program(
      [&] { return tessera::engine_main(tessera::arguments_of(argc, argv)); });
}
