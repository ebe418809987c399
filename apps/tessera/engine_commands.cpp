#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>

#include "apps/tessera/commands.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/launcher/engine.h"
#include "tessera/launcher/flags/engine_flags.h"
#include "tessera/planner/machine/machine_file.h"
#include "tessera/planner/plan.h"
#include "tessera/planner/run_summary.h"
#include "tessera/planner/seconds/seconds_plan.h"
#include "tessera/storage/adapter_config.h"

namespace tessera {
namespace {

// A worker gets no --ranks; any other engine gets all of its ranks so.
template <typename Flags>
[[noreturn]] void become_engine_of(const char* command, const Flags& given,
                                   const WorldOfProcess& world) {
  Flags flags = given;
  flags.ranks = world.worker ? std::nullopt : std::optional(world.world);
  become_engine(engine_command(command, flags_of(flags)), world);
}

// What the run will be. A machine file that is wrong does not keep it from running.
void say_what_it_will_be(const Preflight& checked, const WorldOfProcess& world) {
  const bool processes = world.worker.has_value();
  Plan plan = make_plan(checked.config, world.world, processes, checked.data);
  if (plan.model_type.empty()) return;
  try {
    if (const std::optional<Machine> machine = find_machine({})) {
      plan.seconds = plan_seconds(checked.config, world.world, *machine, processes);
    }
  } catch (const ConfigError& error) {
    log_warning(error.what());
  }
  print_result(run_summary(plan, std::time(nullptr)));
}

int train(const TrainFlags& flags) {
  const WorldOfProcess world = world_of_process(flags.ranks);
  const Preflight checked = check_before_engine(flags.config, flags.overrides, world);
  if (!flags.dry_run || checked.config.run_mode == "predict") {
    if (world.reports_for_all() && checked.config.run_mode != "predict") {
      say_what_it_will_be(checked, world);
    }
    become_engine_of("train", flags, world);
  }
  if (world.reports_for_all()) {
    print_result(
        to_text(make_plan(checked.config, world.world, /*processes=*/false, checked.data)));
  }
  return 0;
}

[[noreturn]] void parity(const ParityFlags& flags) {
  const WorldOfProcess world = world_of_process(flags.ranks);
  if (world.worker && world.world > 1) {
    throw ConfigError(
        "parity runs all ranks, and the one that they are compared with, in one "
        "process: start it once, with --ranks");
  }
  check_before_engine(flags.config, flags.overrides, world);
  become_engine_of("parity", flags, world);
}

}  // namespace

Command train_command() {
  const auto flags = std::make_shared<TrainFlags>();
  return {"train", "trains: one rank, --ranks N thread ranks, or a worker of a launcher",
          flags_of(*flags),
          "Examples:\n"
          "  tessera train --config configs/train_small.yaml --ranks 8\n"
          "  tessera train --config x.yaml --ranks 8 --set training.steps=20 --set "
          "output_dir=/tmp/run\n"
          "  tessera train --config x.yaml --ranks 8 --dry-run\n"
          "  torchrun --no-python --nproc-per-node 8 tessera train --config x.yaml",
          [flags] { return train(*flags); }};
}

Command parity_command() {
  const auto flags = std::make_shared<ParityFlags>();
  return {
      "parity", "compares the layout with one rank: loss, norm, every gradient and value",
      flags_of(*flags),
      "Exit code 6: they differ; the first that does, in the order in which a step computes it, "
      "is\n"
      "named: activations, loss, a gradient, the norm.\n"
      "Tolerance: 1e-10 with float64, 1e-5 with float32, 2e-2 with bfloat16 (numbers: relative;\n"
      "tensors: the largest difference over the norm). Below float64 rounding may choose between "
      "two\n"
      "experts that are nearly tied; then it says so.\n\n"
      "Faults to inject (UNIT: embedding, \"layer N\", \"layer N experts\" or head):\n"
      "  any layout        scale_gradient:UNIT  skip_reduction:UNIT  skip_partial:AXIS[:NAME]\n"
      "                    shift_labels  drop_micro_batch[:INDEX]  perturb_replica[:RANK]\n"
      "  tensor parallel   slice_gradient:UNIT  local_vocabulary\n"
      "  pipeline          swap_micro_batches\n"
      "  context parallel  unmerged_lse:UNIT  drop_key_gradient:UNIT  contiguous_positions\n"
      "  experts           forward_splits:UNIT  double_weights:UNIT\n\nExamples:\n"
      "  tessera parity --config x.yaml --ranks 8\n"
      "  tessera parity --config x.yaml --ranks 8 --steps 10 --json\n"
      "  tessera parity --config x.yaml --ranks 8 --plant 'scale_gradient:layer 1'",
      [flags]() -> int { parity(*flags); }};
}

// Where the weights are, as the file would say it.
void take_weights(EvaluateFlags& flags) {
  if (!flags.model.empty() && !flags.checkpoint.empty()) {
    throw ConfigError("--model and --checkpoint: one of them");
  }
  if (!flags.adapter.empty()) {
    if (flags.model.empty()) throw ConfigError("--adapter: --model FOLDER names its base");
    for (std::string& text : adapter_overrides(flags.adapter, flags.model)) {
      flags.overrides.push_back(std::move(text));
    }
    flags.model.clear();
    flags.adapter.clear();
    return;
  }
  std::string path = flags.model.empty() ? flags.checkpoint : flags.model;
  if (path.empty()) return;
  path = std::filesystem::absolute(path).string();
  std::string quoted;
  for (const char c : path) quoted += c == '\'' ? "''" : std::string(1, c);
  flags.overrides.push_back("checkpoint.load_path='" + quoted + "'");
  if (!flags.model.empty()) flags.overrides.emplace_back("checkpoint.base_load_path=''");
  flags.model.clear();
  flags.checkpoint.clear();
}

int evaluate(EvaluateFlags flags) {
  take_weights(flags);
  // An evaluation goes over the sets once, whatever the file asks of a training.
  flags.overrides.emplace_back("training.eval_interval=1");
  flags.overrides.emplace_back("checkpoint.enable_save=false");
  flags.overrides.emplace_back("checkpoint.save_trainable_only=false");
  flags.overrides.emplace_back("checkpoint.resume=never");
  const WorldOfProcess world = world_of_process(flags.ranks);
  check_before_engine(flags.config, flags.overrides, world);
  become_engine_of("evaluate", flags, world);
}

Command evaluate_command() {
  const auto flags = std::make_shared<EvaluateFlags>();
  return {"evaluate", "the loss of a model on the sets of eval_dataset", flags_of(*flags),
          "Examples:\n"
          "  tessera evaluate --config run.yaml --model FOLDER\n"
          "  tessera evaluate --config run.yaml --checkpoint output/checkpoint --ranks 8 --json",
          [flags] { return evaluate(*flags); }};
}

Command calibrate_command() {
  const auto flags = std::make_shared<CalibrateFlags>();
  return {
      "calibrate", "measures this machine for half a minute, so that plans tell seconds",
      flags_of(*flags),
      "Products, attention, memory, calls, ranks that share cores, collectives of threads and of "
      "processes.\nRun it while nothing else does.\n\nExamples:\n  tessera calibrate\n"
      "  tessera calibrate --output box.yaml",
      [flags]() -> int {
        become_engine(engine_command("calibrate", flags_of(*flags)), WorldOfProcess{});
      }};
}

Command export_command() {
  const auto flags = std::make_shared<ExportFlags>();
  return {
      "export", "writes a checkpoint as a Hugging Face folder", flags_of(*flags),
      "Examples:\n  tessera export --checkpoint output/checkpoint --output model --dtype bfloat16",
      [flags]() -> int {
        become_engine(engine_command("export", flags_of(*flags)), WorldOfProcess{});
      }};
}

Command generate_command() {
  const auto flags = std::make_shared<GenerateFlags>();
  return {
      "generate", "writes: answers to prompts, from a folder or a checkpoint", flags_of(*flags),
      "Examples:\n"
      "  tessera generate --model FOLDER --prompt 'Once upon a time' --max-new-tokens 100\n"
      "  tessera generate --model FOLDER --chat auto\n"
      "  tessera generate --checkpoint output/checkpoint --tokenizer byte --prompt 'The '\n"
      "  tessera generate --model FOLDER --input prompts.jsonl --output answers.jsonl \\\n"
      "    --ranks 2 --set parallelism.tensor_parallel=2",
      [flags]() -> int {
        if (world_of_process(std::nullopt).worker) {
          throw ConfigError("generate runs all ranks in one process: start it once, with --ranks");
        }
        become_engine(engine_command("generate", flags_of(*flags)), WorldOfProcess{});
      }};
}

}  // namespace tessera
