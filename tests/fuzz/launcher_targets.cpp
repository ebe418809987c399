// Targets of what a launcher says: flags and variables.

#include <map>

#include "tessera/base/error.h"
#include "tessera/launcher/flags/msrun_flags.h"
#include "tessera/launcher/flags/script_arguments.h"
#include "tessera/launcher/restarts.h"
#include "tessera/launcher/worker_environment.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/targets.h"

namespace tessera::fuzz {

void read_msrun_flags(std::string_view input) {
  try {
    parse_msrun(lines_of(input), "msrun");
  } catch (const ConfigError&) {
  }
}

void read_script_arguments(std::string_view input) {
  try {
    parse_script_arguments(lines_of(input));
  } catch (const ConfigError&) {
  }
}

void read_environment(std::string_view input) {
  std::map<std::string, std::string> variables;
  for (const std::string& line : lines_of(input)) {
    const size_t equals = line.find('=');
    if (equals != std::string::npos) variables[line.substr(0, equals)] = line.substr(equals + 1);
  }
  const Environment environment = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  try {
    restarts_of(environment);
    read_worker_environment(environment);
  } catch (const ConfigError&) {
  }
}

}  // namespace tessera::fuzz
