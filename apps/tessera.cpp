// tessera: the front of the system. Help, validation, planning, data and launching happen here,
// without libtorch; only what computes goes to tessera-engine.

#include "apps/tessera/commands.h"
#include "tessera/base/error.h"
#include "tessera/launcher/flag_hint.h"
#include "tessera/launcher/launch.h"
#include "tessera/launcher/program_main.h"

namespace {

constexpr const char* kVersion = "tessera " TESSERA_VERSION " (libtorch " TESSERA_TORCH_VERSION ")";

// What is wrong with the arguments, and what was meant.
std::string complaint(const CLI::App& app, const std::string& what,
                      const std::vector<std::string>& arguments) {
  const CLI::App* where = &app;
  for (const CLI::App* chosen : app.get_subcommands()) where = chosen;
  const bool no_command = where == &app && !arguments.empty() && !arguments[0].starts_with("-");
  if (no_command) {
    std::vector<std::string> commands;
    for (const CLI::App* command : app.get_subcommands(nullptr)) {
      commands.push_back(command->get_name());
    }
    return "tessera: " + arguments[0] + " is no command" +
           tessera::word_hint(arguments[0], commands) + " (see tessera --help)";
  }
  const std::string name = where == &app ? "tessera" : "tessera " + where->get_name();
  return name + ": " + what + tessera::unknown_flag_hint(*where, arguments) + " (see " + name +
         " --help)";
}

int run(int argc, char** argv) {
  const std::vector<std::string> arguments = tessera::arguments_of(argc, argv);
  if (!arguments.empty() && arguments.front() == "launch") {
    return tessera::run_msrun({arguments.begin() + 1, arguments.end()}, "tessera launch",
                              {"launch"});
  }

  CLI::App app("Trains large language models on many ranks, cut as one YAML file says.", "tessera");
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  tessera plan --config configs/fsdp.yaml --ranks 8\n"
      "  tessera train --config configs/train_small.yaml --ranks 8\n"
      "  tessera train --help\n\n"
      "Exit codes: 0 done, 1 internal error, 2 file, flags or data, 3 peer or link, 4 checkpoint,\n"
      "5 loss or norm not finite, 6 parity differs, 128 + n ended early by signal n");
  tessera::Command command;
  tessera::add_engine_commands(app, command);
  tessera::add_plan_command(app, command);
  tessera::add_data_commands(app, command);
  tessera::add_tokenizer_commands(app, command);
  app.add_subcommand("launch",
                     "starts worker processes on this node, as msrun does (see launch --help)");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    throw tessera::ConfigError(complaint(app, error.what(), arguments));
  }
  return command();
}

}  // namespace

int main(int argc, char** argv) {
  return tessera::run_program([&] { return run(argc, argv); });
}
