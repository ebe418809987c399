#pragma once

// Which device a rank computes on.

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "tessera/launcher/hosts/host_facts.h"

namespace tessera {

struct RankDevice {
  at::Device device = at::kCPU;
  std::string choice;  // one line for the user where the file leaves it open; else empty
};

/// `target` is context.device_target: CPU; GPU or CUDA (a device a rank); Ascend: as GPU where
/// there are devices, else CPU. `facts` are those of the hosts of all processes, by rank. A rank
/// takes the device of its number on its host; where each rank of a host sees exactly one, that
/// one. Throws ConfigError where a rank would go without a device, or share one: it goes to the CPU
/// only if that was asked for (thread ranks ask for it), or no process sees a device at all.
RankDevice choose_device(const std::string& target, const std::vector<HostFacts>& facts, int rank,
                         int thread_ranks);

/// CUDA devices that libtorch sees; 0 with its CPU build.
int cuda_devices();

/// Makes `device` the one of the calling thread.
void use_device(const at::Device& device);

/// The one of the calling thread; the CPU where libtorch finds no CUDA device.
at::Device current_device();

/// For a process whose rank computes on `device`, before it does: operations on CUDA devices that
/// have a form whose results repeat bitwise take it; of others libtorch warns. Not among them is
/// the backward of fused attention, of which it warns once.
void repeat_bitwise(const at::Device& device);

}  // namespace tessera
