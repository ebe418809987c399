#include "tessera/launcher/hosts/host_facts.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/launcher/hosts/cpu_binding.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string link_target(const char* path) {
  std::array<char, 256> space{};
  const ssize_t length = ::readlink(path, space.data(), space.size());
  return std::string(space.data(), static_cast<size_t>(std::max<ssize_t>(length, 0)));
}

// cpu.max of version 2: "200000 100000", or "max 100000".
double cores_of_v2(const fs::path& folder) {
  std::ifstream file(folder / "cpu.max");
  double quota = 0.0;
  double period = 0.0;
  if (!(file >> quota >> period) || quota <= 0.0 || period <= 0.0) return 0.0;
  return quota / period;
}

// Version 1 has a file for each; -1 is no limit.
double cores_of_v1(const fs::path& folder) {
  double quota = 0.0;
  double period = 0.0;
  std::ifstream quota_file(folder / "cpu.cfs_quota_us");
  std::ifstream period_file(folder / "cpu.cfs_period_us");
  if (!(quota_file >> quota) || !(period_file >> period)) return 0.0;
  return quota > 0.0 && period > 0.0 ? quota / period : 0.0;
}

// The limits of a group and of all groups around it, up to where the hierarchy is mounted. A
// container that does not see its own path sees its group there.
void tighten(const fs::path& mount, const std::string& path, double (*cores_of)(const fs::path&),
             CpuQuota& quota) {
  fs::path inside = fs::path(path).relative_path();
  for (;;) {
    const fs::path folder = inside.empty() ? mount : mount / inside;
    const double cores = cores_of(folder);
    if (cores > 0.0 && (quota.cores == 0.0 || cores < quota.cores)) {
      quota = {cores, folder.string()};
    }
    if (inside.empty()) return;
    inside = inside.parent_path();
  }
}

bool has_word(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

}  // namespace

CpuQuota cpu_quota(const std::string& root) {
  const fs::path base = fs::path(root);
  const fs::path mounts = base / "sys/fs/cgroup";
  CpuQuota quota;
  std::ifstream groups(base / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/path" or "4:cpu,cpuacct:/path"
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      tighten(mounts, path, cores_of_v2, quota);
      tighten(mounts / "unified", path, cores_of_v2, quota);
    } else if (has_word(controllers, "cpu")) {
      tighten(mounts / controllers, path, cores_of_v1, quota);
      tighten(mounts / "cpu", path, cores_of_v1, quota);
    }
  }
  return quota;
}

HostFacts own_host_facts(int devices) {
  HostFacts facts;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> facts.machine;
  facts.container = facts.machine + " " + link_target("/proc/self/ns/pid");
  facts.cpus = allowed_cpus();
  facts.quota = cpu_quota();
  if (facts.quota.cores > 0.0) {
    facts.quota.group = facts.machine + " " + link_target("/proc/self/ns/cgroup") + " " +
                        link_target("/proc/self/ns/mnt") + " " + facts.quota.group;
  }
  facts.devices = devices;
  return facts;
}

int usable_cores(const HostFacts& facts) { return fair_threads({facts}, 0); }

int fair_threads(const std::vector<HostFacts>& facts, int rank) {
  const HostFacts& own = facts.at(static_cast<size_t>(rank));
  double cores = 0.0;
  for (const int cpu : own.cpus) {
    int sharing = 0;
    for (const HostFacts& other : facts) {
      if (other.machine == own.machine && std::ranges::binary_search(other.cpus, cpu)) ++sharing;
    }
    cores += 1.0 / std::max(1, sharing);
  }
  if (own.quota.cores > 0.0) {
    const auto sharing = std::ranges::count_if(
        facts, [&](const HostFacts& other) { return other.quota.group == own.quota.group; });
    cores = std::min(cores, own.quota.cores / static_cast<double>(sharing));
  }
  constexpr double kRounding = 1e-9;  // of a sum of parts
  return std::max(1, static_cast<int>(std::floor(cores + kRounding)));
}

int threads_or(int fair) {
  if (const char* given = std::getenv("OMP_NUM_THREADS")) return std::max(1, std::atoi(given));
  return std::max(1, fair);
}

HostPlace place_on_host(const std::vector<HostFacts>& facts, int rank) {
  HostPlace place{0, 0};
  for (int other = 0; other < static_cast<int>(facts.size()); ++other) {
    if (facts[static_cast<size_t>(other)].container != facts[static_cast<size_t>(rank)].container) {
      continue;
    }
    if (other < rank) ++place.local_rank;
    ++place.local_ranks;
  }
  return place;
}

std::string to_text(const HostFacts& facts) {
  return nlohmann::json({{"machine", facts.machine},
                         {"container", facts.container},
                         {"cpus", facts.cpus},
                         {"quota", facts.quota.cores},
                         {"group", facts.quota.group},
                         {"devices", facts.devices}})
      .dump();
}

HostFacts host_facts(const std::string& text) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    HostFacts facts;
    json.at("machine").get_to(facts.machine);
    json.at("container").get_to(facts.container);
    json.at("cpus").get_to(facts.cpus);
    json.at("quota").get_to(facts.quota.cores);
    json.at("group").get_to(facts.quota.group);
    json.at("devices").get_to(facts.devices);
    return facts;
  } catch (const nlohmann::json::exception&) {
    throw CommError("a rank says of its host what cannot be read: " + text.substr(0, 100));
  }
}

}  // namespace tessera
