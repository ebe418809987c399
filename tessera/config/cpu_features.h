#pragma once

namespace tessera {

/// Whether this CPU multiplies bfloat16 in hardware (AVX512_BF16, AMX_BF16 or Arm's bf16), as
/// /proc/cpuinfo tells; true where that cannot be read.
bool cpu_has_bfloat16();

/// Whether a device driver for CUDA is loaded.
bool has_cuda_driver();

}  // namespace tessera
