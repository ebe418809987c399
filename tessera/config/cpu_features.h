#pragma once

namespace tessera {

/// Whether bfloat16 is multiplied in hardware here: the CPU has AVX512_BF16 (or Arm's bf16, as
/// /proc/cpuinfo tells; true where that cannot be read), and ONEDNN_MAX_CPU_ISA, or
/// DNNL_MAX_CPU_ISA, does not keep oneDNN, which makes these products, from using it.
bool cpu_has_bfloat16();

/// Whether a device driver for CUDA is loaded.
bool has_cuda_driver();

}  // namespace tessera
