#include <memory>

#include "apps/tessera/commands.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/launcher/engine.h"
#include "tessera/launcher/program_path.h"
#include "tessera/layout/batch_plan.h"
#include "tessera/planner/plan.h"

namespace tessera {
namespace {

// Flags that train and parity share.
struct RunFlags {
  std::string config;
  int64_t ranks = 1;
  std::vector<std::string> overrides;
  CLI::Option* ranks_option = nullptr;

  void add_to(CLI::App& command) {
    command.add_option("--config", config, "the configuration, a YAML file")->required();
    ranks_option = command.add_option(
        "--ranks", ranks, "ranks of this process, as threads (default 1; not as a worker)");
    command
        .add_option("--set", overrides,
                    "section.field=value: replaces one value of the file; repeatable")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false);
  }

  std::optional<int64_t> given_ranks() const {
    if (ranks_option->count() == 0) return std::nullopt;
    return ranks;
  }

  // `tessera-engine <command> --config F --ranks N --set ...`; a worker gets no --ranks.
  std::vector<std::string> engine(const std::string& command, const WorldOfProcess& world) const {
    std::vector<std::string> list = {sibling_program("tessera-engine"), command, "--config",
                                     config};
    if (!world.worker) {
      list.push_back("--ranks");
      list.push_back(std::to_string(world.world));
    }
    for (const std::string& item : overrides) {
      list.push_back("--set");
      list.push_back(item);
    }
    return list;
  }
};

void add_train(CLI::App& app, Command& command) {
  struct Flags : RunFlags {
    bool dry_run = false;
    std::string trace;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* train = app.add_subcommand(
      "train", "trains: one rank, --ranks N thread ranks, or a worker of a launcher");
  flags->add_to(*train);
  train->add_flag("--dry-run", flags->dry_run, "checks and plans, trains nothing");
  train->add_option("--trace", flags->trace, "writes a timeline of the run to this file");
  train->footer(
      "Examples:\n"
      "  tessera train --config configs/train_small.yaml --ranks 8\n"
      "  tessera train --config x.yaml --ranks 8 --set training.steps=20 --set "
      "output_dir=/tmp/run\n"
      "  tessera train --config x.yaml --ranks 8 --dry-run\n"
      "  torchrun --no-python --nproc-per-node 8 tessera train --config x.yaml");
  train->callback([flags, &command] {
    command = [flags]() -> int {
      const WorldOfProcess world = world_of_process(flags->given_ranks());
      const Preflight checked = check_before_engine(flags->config, flags->overrides, world);
      if (flags->dry_run) {
        if (world.reports_for_all()) {
          print_result(
              to_text(make_plan(checked.config, world.world, /*processes=*/false, checked.data)));
        }
        return 0;
      }
      std::vector<std::string> engine = flags->engine("train", world);
      if (!flags->trace.empty()) {
        engine.push_back("--trace");
        engine.push_back(flags->trace);
      }
      become_engine(engine, world);
    };
  });
}

void add_parity(CLI::App& app, Command& command) {
  struct Flags : RunFlags {
    int64_t steps = 3;
    std::string dtype = "float64";
    std::string plant;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* parity = app.add_subcommand(
      "parity", "compares the layout with one rank: loss, norm, every gradient and value");
  flags->add_to(*parity);
  parity->add_option("--steps", flags->steps, "updates to compare")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();
  parity->add_option("--dtype", flags->dtype, "of the model and the computation")
      ->check(CLI::IsMember({"float64", "float32", "bfloat16"}))
      ->capture_default_str();
  parity->add_option("--plant", flags->plant,
                     "injects a fault into the layout, to see it found (below)");
  parity->add_flag("--json", flags->json, "writes one JSON object");
  parity->footer(
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
      "  tessera parity --config x.yaml --ranks 8 --plant 'scale_gradient:layer 1'");
  parity->callback([flags, &command] {
    command = [flags]() -> int {
      const WorldOfProcess world = world_of_process(flags->given_ranks());
      if (world.worker && world.world > 1) {
        throw ConfigError(
            "parity runs all ranks, and the one that they are compared with, in one "
            "process: start it once, with --ranks");
      }
      check_before_engine(flags->config, flags->overrides, world);
      std::vector<std::string> engine = flags->engine("parity", world);
      engine.insert(engine.end(),
                    {"--steps", std::to_string(flags->steps), "--dtype", flags->dtype});
      if (!flags->plant.empty()) engine.insert(engine.end(), {"--plant", flags->plant});
      if (flags->json) engine.push_back("--json");
      become_engine(engine, world);
    };
  });
}

void add_export(CLI::App& app, Command& command) {
  struct Flags {
    std::string checkpoint;
    std::string output;
    std::string dtype;
    std::string tokenizer;
    uint64_t shard_bytes = 5'000'000'000;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* exporter = app.add_subcommand("export", "writes a checkpoint as a Hugging Face folder");
  exporter
      ->add_option("--checkpoint", flags->checkpoint,
                   "a checkpoint, or the folder of several: what its pointer names")
      ->required();
  exporter->add_option("--output", flags->output, "folder to write; must not be there")->required();
  exporter->add_option("--dtype", flags->dtype, "of all weights (default: as they are stored)")
      ->check(CLI::IsMember({"float64", "float32", "bfloat16", "float16"}));
  exporter->add_option("--tokenizer", flags->tokenizer,
                       "folder whose tokenizer files are copied (default: the run's)");
  exporter->add_option("--shard-bytes", flags->shard_bytes, "largest file")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();
  exporter->footer(
      "Examples:\n  tessera export --checkpoint output/checkpoint --output model --dtype bfloat16");
  exporter->callback([flags, &command] {  // flags: the options write into them
    command = [flags]() -> int {
      std::vector<std::string> engine = {sibling_program("tessera-engine"),
                                         "export",
                                         "--checkpoint",
                                         flags->checkpoint,
                                         "--output",
                                         flags->output,
                                         "--shard-bytes",
                                         std::to_string(flags->shard_bytes)};
      if (!flags->dtype.empty()) engine.insert(engine.end(), {"--dtype", flags->dtype});
      if (!flags->tokenizer.empty()) {
        engine.insert(engine.end(), {"--tokenizer", flags->tokenizer});
      }
      become_engine(engine, WorldOfProcess{});
    };
  });
}

}  // namespace

void add_engine_commands(CLI::App& app, Command& command) {
  add_train(app, command);
  add_parity(app, command);
  add_export(app, command);
}

}  // namespace tessera
