#include "tessera/comm/devices/rank_device.h"

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdlib>

#include "tessera/base/error.h"

namespace tessera {

RankDevice choose_device(const std::string& target, int devices, const RankPlace& place) {
  if (target == "CPU") return {};
  const at::Device own(at::kCUDA, static_cast<at::DeviceIndex>(place.local_rank));
  const bool enough = place.local_processes <= devices && place.thread_ranks == 1;
  if (target == "GPU" || target == "CUDA") {
    if (enough) return {own, ""};
    const std::string field = "context.device_target = " + target + ": ";
    if (devices == 0) {
      throw ConfigError(field + "libtorch finds no CUDA device here; nearest legal: CPU");
    }
    if (place.thread_ranks > 1) {
      throw ConfigError(field +
                        "one rank a device: start processes (msrun, tessera launch) instead "
                        "of --ranks " +
                        std::to_string(place.thread_ranks));
    }
    throw ConfigError(field + std::to_string(place.local_processes) +
                      " workers of this host have " + std::to_string(devices) + " CUDA devices");
  }
  const std::string open = "; context.device_target leaves it open";
  if (enough) return {own, "ranks compute on CUDA devices" + open};
  const std::string why = devices == 0             ? "no CUDA device here"
                          : place.thread_ranks > 1 ? "thread ranks"
                                                   : "fewer CUDA devices than workers";
  return {at::kCPU, "ranks compute on the CPU (" + why + ")" + open};
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
