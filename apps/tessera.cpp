// tessera: the front of the system. Help, validation, planning, data and launching happen here,
// without libtorch; only what computes goes to tessera-engine.

#include "apps/tessera/commands.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/launcher/flags/flag_hint.h"
#include "tessera/launcher/launch.h"
#include "tessera/launcher/program_main.h"

namespace {

constexpr const char* kVersion =
    "tessera " TESSERA_VERSION " (libtorch " TESSERA_TORCH_VERSION ")\n";

constexpr const char* kEnd =
    "Examples:\n"
    "  tessera plan --config configs/fsdp.yaml --ranks 8\n"
    "  tessera train --config configs/train_small.yaml --ranks 8\n"
    "  tessera train --help\n\n"
    "Exit codes: 0 done, 1 internal error, 2 file, flags or data, 3 peer or link, 4 checkpoint,\n"
    "5 loss or norm not finite, 6 parity differs, 128 + n ended early by signal n\n";

std::vector<tessera::Command> all_commands() {
  return {tessera::train_command(),      tessera::calibrate_command(),
          tessera::plan_command(),       tessera::parity_command(),
          tessera::preprocess_command(), tessera::inspect_command(),
          tessera::export_command(),     tessera::convert_command(),
          tessera::tokenize_command(),   tessera::train_tokenizer_command(),
          tessera::generate_command(),   tessera::evaluate_command()};
}

std::string help(const std::vector<tessera::Command>& commands) {
  std::string text =
      "Trains large language models on many ranks, cut as one YAML file says.\n"
      "Usage: tessera COMMAND [flags]; tessera COMMAND --help; tessera --version\n\n";
  const auto row = [&](const std::string& name, const std::string& does) {
    text += "  " + name + std::string(16 - name.size(), ' ') + does + "\n";
  };
  for (const tessera::Command& command : commands) row(command.name, command.does);
  row("launch", "starts worker processes on this node, as msrun does");
  return text + "\n" + kEnd;
}

int run(const std::vector<std::string>& arguments) {
  const std::string name = arguments.empty() ? "" : arguments.front();
  const std::vector<std::string> rest(arguments.begin() + (arguments.empty() ? 0 : 1),
                                      arguments.end());
  if (name == "launch") return tessera::run_msrun(rest, "tessera launch", {"launch"});
  const std::vector<tessera::Command> commands = all_commands();
  if (name == "--help" || name == "-h" || name == "--version") {
    tessera::print_result(name == "--version" ? kVersion : help(commands));
    return 0;
  }
  std::vector<std::string> names = {"launch"};
  for (const tessera::Command& command : commands) {
    names.push_back(command.name);
    if (command.name != name) continue;
    const std::string program = "tessera " + name;
    if (!tessera::parse_flags(command.flags, rest, program)) return command.run();
    tessera::print_result(tessera::flag_help(program, command.does, command.flags, command.end));
    return 0;
  }
  const std::string what = name.empty()            ? "a command is missing"
                           : name.starts_with("-") ? name + ": a command comes first"
                                                   : name + " is no command";
  throw tessera::ConfigError("tessera: " + what + tessera::word_hint(name, names) +
                             " (see tessera --help)");
}

}  // namespace

int main(int argc, char** argv) {
  return tessera::run_program([&] { return run(tessera::arguments_of(argc, argv)); });
}
