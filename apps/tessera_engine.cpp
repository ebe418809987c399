// The program that holds libtorch: trains, proves, exports. The front (`tessera`) checks file and
// flags in milliseconds, says all there is to say about them, and then becomes this one.

#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/checkpoint/hf_export.h"
#include "tessera/checkpoint/inspect.h"
#include "tessera/config/load.h"
#include "tessera/generate/generation_config.h"
#include "tessera/generate/run_generation.h"
#include "tessera/launcher/engine.h"
#include "tessera/launcher/flags/engine_flags.h"
#include "tessera/launcher/program_main.h"
#include "tessera/rules/validate.h"
#include "tessera/train/calibrate.h"
#include "tessera/train/parity/parity.h"
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

int predict(const TrainFlags& flags);

int train(const TrainFlags& flags) {
  if (load_config(flags.config, flags.overrides).config.run_mode == "predict") {
    return predict(flags);
  }
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

int evaluate(const EvaluateFlags& flags) {
  const WorldOfProcess world = world_of_process(flags.ranks);
  RunOptions options;
  options.worker = world.worker;
  options.secret = JobSecret::of(process_environment());
  options.thread_ranks = world.worker ? 1 : world.world;
  const Config config = checked_config(flags, world.world);
  const std::vector<EvalMetrics> found = run_evaluation(config, options);
  if (!world.reports_for_all()) return static_cast<int>(ExitCode::kDone);
  print_result(flags.json ? json_object(found) : console_lines(found));
  return static_cast<int>(ExitCode::kDone);
}

int export_checkpoint(const ExportFlags& flags) {
  HfExportOptions options;
  options.checkpoint = flags.checkpoint;
  options.output = flags.output;
  options.tokenizer = flags.tokenizer;
  options.shard_bytes = flags.shard_bytes;
  options.base = flags.base;
  if (flags.adapter && flags.merge) throw ConfigError("--adapter and --merge: one of them");
  if (flags.adapter) options.adapters = HfExportOptions::Adapters::kAlone;
  if (flags.merge) options.adapters = HfExportOptions::Adapters::kMerged;
  if (!flags.dtype.empty()) options.dtype = dtype_from_string(flags.dtype);
  print_result(export_to_hf(options));
  return static_cast<int>(ExitCode::kDone);
}

int inspect(const InspectFlags& flags) {
  const bool is_folder = std::filesystem::is_directory(flags.path);
  print_result((is_folder ? inspect_folder : inspect_weight_file)(flags.path, flags.verify));
  return static_cast<int>(ExitCode::kDone);
}

GenerationRun run_of(const GenerateFlags& flags) {
  GenerationRun run;
  const ModelSource source{flags.model, flags.adapter, flags.checkpoint, flags.config, flags.dtype};
  run.config = generation_config(source, flags.overrides, flags.ranks.value_or(1));
  run.tokenizer = flags.tokenizer;
  if (!flags.chat.empty()) run.chat = flags.chat == "auto" ? "" : flags.chat;
  if (!flags.prompt.empty() && !flags.input.empty()) {
    throw ConfigError("--prompt and --input: one of them");
  }
  if (!flags.prompt.empty()) run.prompts = {{flags.prompt, {}, std::nullopt}};
  if (!flags.input.empty()) run.prompts = read_prompts(flags.input);
  SamplingOptions& sampling = run.options.sampling;
  sampling.temperature = flags.temperature;
  sampling.top_k = flags.top_k;
  sampling.top_p = flags.top_p;
  sampling.min_p = flags.min_p;
  sampling.repetition_penalty = flags.repetition_penalty;
  sampling.seed = static_cast<uint64_t>(flags.seed);
  if (flags.top_p <= 0) throw ConfigError("--top-p: must be above 0");
  if (flags.repetition_penalty <= 0) throw ConfigError("--repetition-penalty: must be above 0");
  run.options.max_new_tokens = flags.max_new_tokens;
  run.options.batch_size = flags.batch_size;
  run.stop_texts = flags.stop;
  run.output = flags.output;
  return run;
}

int generate_texts(const GenerateFlags& flags) {
  const GenerationRun run = run_of(flags);
  WorldOptions world;
  world.thread_ranks = flags.ranks.value_or(1);
  run_world(run.config, world, nullptr,
            [&](const ProcessGroup& ranks) { run_generation(run, ranks); });
  return static_cast<int>(ExitCode::kDone);
}

// `run_mode: predict`.
int predict(const TrainFlags& flags) {
  const WorldOfProcess world = world_of_process(flags.ranks);
  GenerationRun run;
  run.config = generation_config({"", "", "", flags.config, ""}, flags.overrides, world.world);
  const InferenceConfig& inference = run.config.inference;
  run.prompts = prompts_of(inference);
  run.options.sampling = {inference.repetition_penalty,
                          inference.temperature,
                          inference.top_k,
                          inference.top_p,
                          inference.min_p,
                          static_cast<uint64_t>(inference.seed)};
  run.options.max_new_tokens = inference.max_new_tokens;
  run.options.batch_size = inference.batch_size;
  run.stop_texts = inference.stop;
  run.output = inference.output;
  WorldOptions options;
  options.worker = world.worker;
  options.secret = JobSecret::of(process_environment());
  options.thread_ranks = world.worker ? 1 : world.world;
  run_world(run.config, options, world.worker ? RankPage::of_launcher() : nullptr,
            [&](const ProcessGroup& ranks) { run_generation(run, ranks); });
  return static_cast<int>(ExitCode::kDone);
}

int calibrate_machine(const CalibrateFlags& flags) {
  CalibrateOptions options;
  options.output = flags.output;
  options.worker_result = flags.worker_result;
  if (!flags.worker_result.empty()) {
    options.worker = read_worker_environment(process_environment());
  }
  const std::string text = calibrate(options);
  if (!text.empty()) print_result(text);
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
  if (name == "evaluate") return run_command(name, rest, evaluate);
  if (name == "calibrate") return run_command(name, rest, calibrate_machine);
  if (name == "export") return run_command(name, rest, export_checkpoint);
  if (name == "generate") return run_command(name, rest, generate_texts);
  if (name == "inspect") return run_command(name, rest, inspect);
  throw ConfigError("tessera-engine " + name + ": is started by tessera, not by hand");
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  return tessera::run_program(
      [&] { return tessera::engine_main(tessera::arguments_of(argc, argv)); });
}
