#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tessera/nn/attention/document_plan.h"

namespace tessera {

/// softmax(q k^T * scale) v, causal inside each document of `groups` (plan_documents: together they
/// cover all tokens). q [T, N, D], k [T, M, D], v [T, M, E] with M a divisor of N; any strides with
/// dense heads. Returns [T, N, E]. On the CPU by libtorch's flash kernel in float64, float32 and
/// bfloat16; memory is linear in T everywhere but on devices without such a kernel for the type.
at::Tensor local_attention(const at::Tensor& q_TND, const at::Tensor& k_TMD,
                           const at::Tensor& v_TME, const std::vector<DocumentGroup>& groups,
                           double scale);

}  // namespace tessera
