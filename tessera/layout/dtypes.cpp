#include "tessera/layout/dtypes.h"

namespace tessera {

DType compute_dtype(ParamRole role, const ModelConfig& model) {
  if (is_norm(role)) return model.layernorm_compute_dtype;
  if (role == ParamRole::kRouter || role == ParamRole::kRouterOffset) {
    return model.moe_router_dtype;
  }
  return model.compute_dtype;
}

DType storage_dtype(ParamRole role, const ModelConfig& model) {
  if (is_norm(role)) return model.layernorm_compute_dtype;
  if (role == ParamRole::kEmbedding) return model.embedding_params_dtype;
  return model.params_dtype;
}

DType frozen_dtype(ParamRole role, const ModelConfig& model) {
  const DType stored = storage_dtype(role, model);
  return is_norm(role) ? stored : model.frozen_dtype.value_or(stored);
}

DType master_dtype(const ModelConfig& model) {
  const bool is_double =
      model.params_dtype == DType::kFloat64 || model.compute_dtype == DType::kFloat64;
  return is_double ? DType::kFloat64 : DType::kFloat32;
}

}  // namespace tessera
