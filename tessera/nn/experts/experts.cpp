#include "tessera/nn/experts/experts.h"

#include <ATen/ATen.h>

#include "tessera/nn/experts/grouped_linear.h"
#include "tessera/nn/kernels/swiglu.h"

namespace tessera {

at::Tensor Experts::forward(const at::Tensor& rows_RH,
                            const std::vector<int64_t>& rows_of_expert) const {
  const at::Tensor inner = swiglu(grouped_linear(rows_RH, gate_up.value, rows_of_expert, 2));
  return grouped_linear(inner, down.value, rows_of_expert);
}

}  // namespace tessera
