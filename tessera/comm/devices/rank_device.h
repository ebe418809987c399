#pragma once

// Which device a rank computes on.

#include <ATen/core/Tensor.h>

#include <string>

namespace tessera {

struct RankPlace {
  int local_rank = 0;       // among the processes of this host
  int local_processes = 1;  // on this host
  int thread_ranks = 1;     // in this process
};

struct RankDevice {
  at::Device device = at::kCPU;
  std::string choice;  // one line for the user where the file leaves it open; else empty
};

/// `target` is context.device_target: CPU; GPU or CUDA (a device a rank, cuda:local_rank); Ascend:
/// as GPU where there are enough, else CPU. `devices` is how many CUDA devices this process sees.
/// Throws ConfigError for GPU or CUDA without a device for each rank.
RankDevice choose_device(const std::string& target, int devices, const RankPlace& place);

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
