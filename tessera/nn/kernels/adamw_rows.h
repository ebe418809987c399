#pragma once

// The arithmetic of AdamW (Loshchilov and Hutter 2019, as torch.optim.AdamW computes it) on plain
// memory. The bits of an element depend on nothing but its own numbers: not on its place, as with
// libtorch's fused kernel, whose last elements of a tensor are rounded otherwise, so that two cuts
// of one tensor differ. No torch here.

#include <cstdint>

namespace tessera::kernels {

template <typename T>
struct AdamWRows {
  T* value = nullptr;
  const T* grad = nullptr;
  T* average = nullptr;
  T* square = nullptr;
  T* maximum = nullptr;  // of the squares so far (amsgrad); nullptr: without
};

/// What is the same for all elements of an update.
struct AdamWFactors {
  double kept = 1.0;  // 1 - lr * weight_decay
  double beta1 = 0.9;
  double beta2 = 0.999;
  double step = 0.0;  // lr / (1 - beta1^t)
  double root = 1.0;  // sqrt(1 - beta2^t)
  double eps = 1e-8;
};

/// Elements [begin, end).
template <typename T>
void adamw(const AdamWRows<T>& rows, const AdamWFactors& factors, int64_t begin, int64_t end);

}  // namespace tessera::kernels
