#include "tessera/launcher/hosts/cpu_binding.h"

#include <sched.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"

namespace tessera {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::vector<std::vector<int>> equal_runs(int workers, const std::vector<int>& cpus) {
  const int count = static_cast<int>(cpus.size());
  std::vector<std::vector<int>> result(static_cast<size_t>(workers));
  for (int worker = 0; worker < workers; ++worker) {
    if (count < workers) {
      result[static_cast<size_t>(worker)] = {cpus[static_cast<size_t>(worker % count)]};
      continue;
    }
    const int begin = worker * count / workers;
    const int end = (worker + 1) * count / workers;
    result[static_cast<size_t>(worker)].assign(cpus.begin() + begin, cpus.begin() + end);
  }
  return result;
}

// "0-10" or "7"
void add_range(const std::string& range, const std::vector<int>& cpus, std::vector<int>& result) {
  int first = 0;
  int last = 0;
  int used = 0;
  bool good = std::sscanf(range.c_str(), "%d-%d%n", &first, &last, &used) == 2;
  if (!good) {
    good = std::sscanf(range.c_str(), "%d%n", &first, &used) == 1;
    last = first;
  }
  if (!good || used != static_cast<int>(range.size()) || first < 0 || last < first ||
      last >= CPU_SETSIZE) {
    throw ConfigError("--bind_core: \"" + range +
                      "\" is no range of cores such as \"0-10\" or \"7\"");
  }
  for (int cpu = first; cpu <= last; ++cpu) {
    if (!std::binary_search(cpus.begin(), cpus.end(), cpu)) {
      throw ConfigError("--bind_core: core " + std::to_string(cpu) +
                        " is not among those this process may use");
    }
    result.push_back(cpu);
  }
}

}  // namespace

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  TESSERA_CHECK_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

std::vector<std::vector<int>> bind_cores(const std::string& option, int workers,
                                         const std::vector<int>& cpus) {
  const std::string value = lower(option);
  if (value == "false") return std::vector<std::vector<int>>(static_cast<size_t>(workers));
  if (value == "true") return equal_runs(workers, cpus);

  const nlohmann::json table = nlohmann::json::parse(option, nullptr, false);
  if (!table.is_object()) {
    throw ConfigError("--bind_core=" + option +
                      " must be True, False or a dictionary such as {\"device0\": [\"0-10\"]}");
  }
  std::vector<std::vector<int>> result;
  for (int worker = 0; worker < workers; ++worker) {
    const std::string key = "device" + std::to_string(worker);
    const auto entry = table.find(key);
    if (entry == table.end() || !entry->is_array() || entry->empty()) {
      throw ConfigError("--bind_core has no list of cores for \"" + key + "\"");
    }
    std::vector<int> list;
    for (const nlohmann::json& range : *entry) {
      add_range(range.is_string() ? range.get<std::string>() : range.dump(), cpus, list);
    }
    result.push_back(list);
  }
  return result;
}

}  // namespace tessera
