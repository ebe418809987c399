#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "tessera/planner/machine/machine_file.h"

namespace tessera {
namespace {

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

}  // namespace

std::string default_machine_path() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  if (config != nullptr && *config != '\0') return std::string(config) + "/tessera/machine.yaml";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return "";
  return std::string(home) + "/.config/tessera/machine.yaml";
}

std::string machine_description() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return std::string(name.data()) + ", " + processor() + ", " +
         std::to_string(std::thread::hardware_concurrency()) + " cores";
}

std::string machine_warning(const Machine& machine) {
  if (!machine.measured || machine.host == machine_description()) return "";
  return "these seconds are of another host: " + machine.host;
}

}  // namespace tessera
