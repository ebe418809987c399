#include "tessera/layout/dtypes.h"

namespace tessera {

DType master_dtype(const ModelConfig& model) {
  const bool is_double =
      model.params_dtype == DType::kFloat64 || model.compute_dtype == DType::kFloat64;
  return is_double ? DType::kFloat64 : DType::kFloat32;
}

}  // namespace tessera
