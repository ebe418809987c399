#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tessera {

/// Matrices whose rows and columns sum to about one, out of any: softmax over the last dimension
/// plus eps, then in turns columns / (their sum + eps) and rows / (their sum + eps); `iterations`
/// passes over the columns, one less over the rows (0 counts as 1). [T, N, N] -> [T, N, N]. Keeps
/// its input for the backward, which runs the iteration again. (Sinkhorn and Knopp 1967; as
/// transformers' DeepSeek-V4 has it.)
at::Tensor sinkhorn(const at::Tensor& logits_TNN, int64_t iterations, double eps);

}  // namespace tessera
