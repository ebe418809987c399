// The program that holds libtorch: trains, proves, exports. The front (`tessera`) checks file and
// flags in milliseconds, says all there is to say about them, and then becomes this one.

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/checkpoint/hf_export.h"
#include "tessera/checkpoint/inspect.h"
#include "tessera/config/load.h"
#include "tessera/rules/validate.h"
#include "tessera/train/parity.h"
#include "tessera/train/run.h"

namespace tessera {
namespace {

struct Flags {
  std::string config;
  std::vector<std::string> set;
  int64_t ranks = 1;
  std::string plant;
  std::string trace;
  int64_t steps = 3;
  std::string dtype = "float64";
  bool json = false;
};

struct FolderFlags {  // of export and inspect, which train nothing
  std::string path;
  bool verify = false;
  std::string output;
  std::string dtype;
  std::string tokenizer;
  uint64_t shard_bytes = HfExportOptions{}.shard_bytes;
};

// The file again, and every rule: this program may be started without the front.
Config checked_config(const Flags& flags, int64_t world) {
  ConfigResult result = load_config(flags.config, flags.set);
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

std::optional<WorkerPlace> worker_place() {
  const char* world = std::getenv("WORLD_SIZE");
  if (world == nullptr) return std::nullopt;
  const auto text = [](const char* name, const char* otherwise) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : otherwise);
  };
  const std::string rank = text("RANK", "0");
  return WorkerPlace{std::stoi(rank),
                     std::stoi(world),
                     std::stoi(text("LOCAL_RANK", rank.c_str())),
                     std::stoi(text("LOCAL_WORLD_SIZE", world)),
                     text("MASTER_ADDR", "127.0.0.1"),
                     std::stoi(text("MASTER_PORT", "8118")),
                     text("TESSERA_JOB_ID", "")};
}

int train(const Flags& flags) {
  RunOptions options;
  options.worker = worker_place();
  options.thread_ranks = flags.ranks;
  options.trace = flags.trace;
  if (!flags.plant.empty()) options.faults = parse_fault(flags.plant);
  const int64_t world = options.worker ? options.worker->world : flags.ranks;
  return run_training(checked_config(flags, world), options);
}

int parity(const Flags& flags) {
  ParityOptions options;
  options.ranks = flags.ranks;
  options.steps = flags.steps;
  const std::optional<DType> dtype = dtype_from_string(flags.dtype);
  if (!dtype || *dtype == DType::kFloat16) {
    throw ConfigError("--dtype " + flags.dtype + ": legal are float64, float32, bfloat16");
  }
  options.dtype = *dtype;
  if (!flags.plant.empty()) options.faults = parse_fault(flags.plant);
  const ParityReport report = run_parity(checked_config(flags, flags.ranks), options);
  print_result(flags.json ? parity_json(report) : parity_text(report));
  return static_cast<int>(report.passed() ? ExitCode::kDone : ExitCode::kParity);
}

int export_checkpoint(const FolderFlags& flags) {
  HfExportOptions options;
  options.checkpoint = flags.path;
  options.output = flags.output;
  options.tokenizer = flags.tokenizer;
  options.shard_bytes = flags.shard_bytes;
  if (!flags.dtype.empty()) {
    options.dtype = dtype_from_string(flags.dtype);
    if (!options.dtype) {
      throw ConfigError("--dtype " + flags.dtype +
                        ": legal are float32, bfloat16, float16, float64");
    }
  }
  print_result(export_to_hf(options));
  return static_cast<int>(ExitCode::kDone);
}

int inspect(const FolderFlags& flags) {
  const bool is_folder = std::filesystem::is_directory(flags.path);
  print_result((is_folder ? inspect_folder : inspect_weight_file)(flags.path, flags.verify));
  return static_cast<int>(ExitCode::kDone);
}

int engine_main(int argc, char** argv) {
  CLI::App app{"The engine of tessera; start it through `tessera`."};
  app.require_subcommand(1);
  Flags flags;
  const auto common = [&](CLI::App* command) {
    command->add_option("--config", flags.config)->required();
    command->add_option("--set", flags.set);
    command->add_option("--ranks", flags.ranks)->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
    command->add_option("--plant", flags.plant);
  };
  CLI::App* train_command = app.add_subcommand("train");
  common(train_command);
  train_command->add_option("--trace", flags.trace);
  CLI::App* parity_command = app.add_subcommand("parity");
  common(parity_command);
  parity_command->add_option("--steps", flags.steps)
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  parity_command->add_option("--dtype", flags.dtype);
  parity_command->add_flag("--json", flags.json);
  FolderFlags folder;
  CLI::App* export_command = app.add_subcommand("export");
  export_command->add_option("--checkpoint", folder.path)->required();
  export_command->add_option("--output", folder.output)->required();
  export_command->add_option("--dtype", folder.dtype);
  export_command->add_option("--tokenizer", folder.tokenizer);
  export_command->add_option("--shard-bytes", folder.shard_bytes);
  CLI::App* inspect_command = app.add_subcommand("inspect");
  inspect_command->add_option("path", folder.path)->required();
  inspect_command->add_flag("--verify", folder.verify);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::kConfig);
  }
  try {
    if (export_command->parsed()) return export_checkpoint(folder);
    if (inspect_command->parsed()) return inspect(folder);
    return train_command->parsed() ? train(flags) : parity(flags);
  } catch (const Error& error) {
    log_error(error.what());
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    log_error(error.what());
    return static_cast<int>(ExitCode::kInternal);
  }
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::engine_main(argc, argv); }
