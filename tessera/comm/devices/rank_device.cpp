#include "tessera/comm/devices/rank_device.h"

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstdlib>

#include "tessera/base/error.h"

namespace tessera {

namespace {

// Ranks of the container of `rank`, all of which see one device.
bool each_sees_one(const std::vector<HostFacts>& facts, const HostFacts& own) {
  return std::ranges::all_of(facts, [&](const HostFacts& other) {
    return other.container != own.container || other.devices == 1;
  });
}

// Why a rank of these has no device of its own; empty: each has one.
std::string shortage(const std::vector<HostFacts>& facts, int thread_ranks) {
  if (thread_ranks > 1) {
    return "one rank a device: start processes (msrun, tessera launch) instead of --ranks " +
           std::to_string(thread_ranks);
  }
  for (int rank = 0; rank < static_cast<int>(facts.size()); ++rank) {
    const HostFacts& own = facts[static_cast<size_t>(rank)];
    const HostPlace place = place_on_host(facts, rank);
    if (place.local_ranks <= own.devices || (own.devices == 1 && each_sees_one(facts, own))) {
      continue;
    }
    return std::to_string(place.local_ranks) + " workers of the host of rank " +
           std::to_string(rank) + ", which sees " + std::to_string(own.devices) +
           (own.devices == 1 ? " CUDA device" : " CUDA devices");
  }
  return "";
}

}  // namespace

RankDevice choose_device(const std::string& target, const std::vector<HostFacts>& facts, int rank,
                         int thread_ranks) {
  if (target == "CPU") return {};
  const bool asked = target == "GPU" || target == "CUDA";
  const bool none =
      std::ranges::all_of(facts, [](const HostFacts& host) { return host.devices == 0; });
  const std::string field = "context.device_target = " + target + ": ";
  if (none && asked) {
    throw ConfigError(field + "libtorch finds no CUDA device here; nearest legal: CPU");
  }
  const std::string open = "; context.device_target leaves it open";
  if (none) return {at::kCPU, "ranks compute on the CPU (no CUDA device here)" + open};
  if (!asked && thread_ranks > 1) {  // by their nature: --ranks N asks for the CPU
    return {at::kCPU, "ranks compute on the CPU (thread ranks)" + open};
  }
  if (const std::string why = shortage(facts, thread_ranks); !why.empty()) {
    throw ConfigError(field + why + "; to compute on the CPU, set context.device_target: CPU");
  }
  const HostPlace place = place_on_host(facts, rank);
  const bool numbered = place.local_ranks <= facts[static_cast<size_t>(rank)].devices;
  const at::Device own(at::kCUDA, static_cast<at::DeviceIndex>(numbered ? place.local_rank : 0));
  return {own, asked ? "" : "ranks compute on CUDA devices" + open};
}

int cuda_devices() {
  return at::globalContext().hasCUDA() ? at::detail::getCUDAHooks().deviceCount() : 0;
}

void use_device(const at::Device& device) {
  if (device.is_cpu()) return;
  c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
}

at::Device current_device() {
  return cuda_devices() > 0 ? c10::impl::VirtualGuardImpl(at::kCUDA).getDevice() : at::kCPU;
}

void repeat_bitwise(const at::Device& device) {
  if (device.is_cpu()) return;
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);  // read at the first product
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/true);
  context.setDeterministicFillUninitializedMemory(false);  // else it writes all of at::empty
}

}  // namespace tessera
