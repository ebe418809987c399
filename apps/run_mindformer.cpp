// run_mindformer.py: the training script of the reference by name; a program here. One rank, or as
// a worker of a launcher (its environment says which rank).

#include <iostream>

#include "tessera/launcher/engine.h"
#include "tessera/launcher/flags/script_arguments.h"
#include "tessera/launcher/program_main.h"

namespace {

int run(const std::vector<std::string>& arguments) {
  const tessera::ScriptArguments script = tessera::parse_script_arguments(arguments);
  if (script.help) {
    std::cout << tessera::script_help();
    return 0;
  }
  const tessera::WorldOfProcess world = tessera::world_of_process(std::nullopt);
  if (world.reports_for_all()) tessera::name_without_effect(script.no_effect);
  tessera::check_before_engine(script.config, script.overrides, world);
  tessera::become_engine(tessera::engine_command(script), world);
}

}  // namespace

int main(int argc, char** argv) {
  return tessera::run_program([&] { return run(tessera::arguments_of(argc, argv)); });
}
