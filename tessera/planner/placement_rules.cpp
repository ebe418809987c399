#include "tessera/planner/placement_rules.h"

#include <string>

#include "tessera/base/error.h"
#include "tessera/base/storage_dim.h"

namespace tessera {
namespace {

enum class TensorCut { kNone, kRows, kKvRows, kColumns };

// Column-parallel products are cut by rows of the matrix, row-parallel ones by columns. Small
// low-rank matrices, norms, router and experts work on the sequence slice and stay whole.
TensorCut tensor_cut(ParamRole role) {
  switch (role) {
    case ParamRole::kEmbedding:
    case ParamRole::kHead:
    case ParamRole::kAttnQ:
    case ParamRole::kAttnQBias:
    case ParamRole::kMlaQB:
    case ParamRole::kMlaKvB:
    case ParamRole::kMlpGate:
    case ParamRole::kMlpUp:
    case ParamRole::kMlpGateBias:
    case ParamRole::kMlpUpBias: return TensorCut::kRows;
    case ParamRole::kAttnK:
    case ParamRole::kAttnV:
    case ParamRole::kAttnKBias:
    case ParamRole::kAttnVBias: return TensorCut::kKvRows;
    case ParamRole::kAttnO:
    case ParamRole::kMlpDown: return TensorCut::kColumns;
    default: return TensorCut::kNone;
  }
}

Axis axis_of(const std::string& name) {
  for (const Axis axis : kAllAxes) {
    if (axis_name(axis) == name) return axis;
  }
  TESSERA_CHECK(false, "no axis ", name);
}

}  // namespace

bool is_expert(ParamRole role) {
  return role == ParamRole::kExpertGate || role == ParamRole::kExpertUp ||
         role == ParamRole::kExpertDown;
}

std::vector<AxisCut> compute_cuts_of(ParamRole role, const ModelConfig& model,
                                     const ParallelDims& dims) {
  if (is_expert(role)) {
    if (dims.ep > 1) return {{"ep", 0, 1}};
    return {};
  }
  if (dims.tp == 1) return {};
  const auto tp = static_cast<int>(dims.tp);
  const auto kv_heads = static_cast<int>(model.num_key_value_heads);
  switch (tensor_cut(role)) {
    case TensorCut::kNone: return {};
    case TensorCut::kRows: return {{"tp", 0, 1}};
    case TensorCut::kKvRows: return {{"tp", 0, kv_heads < tp ? tp / kv_heads : 1}};
    case TensorCut::kColumns: return {{"tp", 1, 1}};
  }
  return {};
}

std::vector<AxisCut> cuts_of(ParamRole role, const ModelConfig& model, const ParallelDims& dims) {
  std::vector<AxisCut> cuts = compute_cuts_of(role, model, dims);
  const bool sparse = is_expert(role) && dims.ep > 1;
  const int64_t parts = sparse ? dims.efsdp() : dims.fsdp();
  const std::vector<int64_t> stack{model.n_routed_experts / dims.ep, 1, 1};
  const int dim = is_expert(role) ? storage_dim(stack, parts) : 0;
  cuts.push_back({sparse ? "efsdp" : "fsdp", dim, 1});
  return cuts;
}

int64_t local_elements(const std::vector<int64_t>& shape, const std::vector<AxisCut>& cuts,
                       const ParallelDims& dims, int64_t rank) {
  std::vector<int64_t> local = shape;
  for (const AxisCut& cut : cuts) {
    const Axis axis = axis_of(cut.axis);
    const int64_t parts = dims.size(axis) / cut.copies;
    const int64_t part = dims.index_on(axis, rank) / cut.copies;
    int64_t& extent = local[static_cast<size_t>(cut.dim)];
    extent = part_of(extent, parts, part).size();
  }
  int64_t elements = 1;
  for (const int64_t extent : local) elements *= extent;
  return elements;
}

}  // namespace tessera
