#include "tessera/layout/placement.h"

#include <algorithm>

#include "tessera/base/error.h"

namespace tessera {
namespace {

enum class TensorCut { kNone, kRows, kKvRows, kColumns };

TensorCut tensor_cut(ParamRole role, const LayerDesign& design) {
  const bool by_head = design.qk_norm_span == QkNormSpan::kAllHeads;
  if (role == ParamRole::kQNorm) return by_head ? TensorCut::kRows : TensorCut::kNone;
  if (role == ParamRole::kKNorm) return by_head ? TensorCut::kKvRows : TensorCut::kNone;
  switch (role) {
    case ParamRole::kEmbedding:
    case ParamRole::kHead:
    case ParamRole::kAttnQ:
    case ParamRole::kAttnQBias:
    case ParamRole::kAttnSink:
    case ParamRole::kMlaQB:
    case ParamRole::kMlaKvB:
    case ParamRole::kMlpGate:
    case ParamRole::kMlpUp:
    case ParamRole::kMlpGateBias:
    case ParamRole::kMlpUpBias:
    case ParamRole::kAdapterRows: return TensorCut::kRows;
    case ParamRole::kAttnK:
    case ParamRole::kAttnV:
    case ParamRole::kAttnKBias:
    case ParamRole::kAttnVBias:
    case ParamRole::kAdapterKvRows: return TensorCut::kKvRows;
    case ParamRole::kAttnO:
    case ParamRole::kMlpDown:
    case ParamRole::kAdapterColumns: return TensorCut::kColumns;
    default: return TensorCut::kNone;
  }
}

ParamRole adapter_role(TensorCut cut, AdapterSide side) {
  const bool is_b = side == AdapterSide::kB;
  switch (cut) {
    case TensorCut::kRows: return is_b ? ParamRole::kAdapterRows : ParamRole::kAdapter;
    case TensorCut::kKvRows: return is_b ? ParamRole::kAdapterKvRows : ParamRole::kAdapter;
    case TensorCut::kColumns: return is_b ? ParamRole::kAdapter : ParamRole::kAdapterColumns;
    case TensorCut::kNone: break;
  }
  return ParamRole::kAdapter;
}

std::vector<AxisCut> cuts_of(ParamRole role, const ModelConfig& model, const ParallelDims& dims) {
  if (is_expert(role)) {
    if (dims.ep == 1) return {};
    return {{Axis::kEp, 0, 1}};
  }
  if (dims.tp == 1) return {};
  const auto tp = static_cast<int>(dims.tp);
  const auto kv_heads = static_cast<int>(model.num_key_value_heads);
  switch (tensor_cut(role, model.design())) {
    case TensorCut::kNone: return {};
    case TensorCut::kRows: return {{Axis::kTp, 0, 1}};
    case TensorCut::kKvRows: return {{Axis::kTp, 0, kv_heads < tp ? tp / kv_heads : 1}};
    case TensorCut::kColumns: return {{Axis::kTp, 1, 1}};
  }
  return {};
}

// The matrix that a pipeline's first stage looks tokens up in, and that its last stage uses too.
bool is_on_two_stages(ParamRole role, const ModelConfig& model, const ParallelDims& dims) {
  return role == ParamRole::kEmbedding && model.uses_embedding_last() && dims.pp > 1;
}

}  // namespace

Placement place_parameter(ParamRole role, const ModelConfig& model, const ParallelDims& dims) {
  Placement placement;
  placement.cuts = cuts_of(role, model, dims);
  const bool cut = !placement.cuts.empty();
  if (cut && placement.cuts.front().axis == Axis::kEp) placement.sharded_over = Axis::kEfsdp;
  if (role == ParamRole::kRouterBias) return placement;

  const bool shared_by_tp = cut ? placement.cuts.front().copies > 1 : dims.tp > 1;
  if (shared_by_tp) placement.partial.push_back(Axis::kTp);
  if (is_on_two_stages(role, model, dims)) placement.partial.push_back(Axis::kEmbedding);
  if (dims.dp_replicate > 1) placement.partial.push_back(Axis::kDpReplicate);
  return placement;
}

ParamRole adapter_role(ParamRole matrix, AdapterSide side, const LayerDesign& design) {
  if (is_expert(matrix)) return ParamRole::kExpertAdapter;
  return adapter_role(tensor_cut(matrix, design), side);
}

const AxisCut* find_cut(const std::vector<AxisCut>& cuts, Axis axis) {
  const auto found = std::find_if(cuts.begin(), cuts.end(),
                                  [axis](const AxisCut& cut) { return cut.axis == axis; });
  return found == cuts.end() ? nullptr : &*found;
}

bool is_expert(ParamRole role) {
  switch (role) {
    case ParamRole::kExpertGate:
    case ParamRole::kExpertUp:
    case ParamRole::kExpertDown:
    case ParamRole::kExpertGateBias:
    case ParamRole::kExpertUpBias:
    case ParamRole::kExpertDownBias:
    case ParamRole::kExpertAdapter: return true;
    default: return false;
  }
}

bool is_adapter(ParamRole role) {
  return role == ParamRole::kAdapter || role == ParamRole::kAdapterRows ||
         role == ParamRole::kAdapterKvRows || role == ParamRole::kAdapterColumns ||
         role == ParamRole::kExpertAdapter;
}

AxisCut storage_cut(const std::vector<int64_t>& sizes, Axis axis, int64_t parts) {
  const bool few_matrices = sizes.size() == 3 && sizes[0] < parts;
  return {axis, few_matrices ? 1 : 0, 1};
}

std::vector<AxisCut> stored_cuts(const Placement& placement, const std::vector<int64_t>& shape,
                                 const ParallelDims& dims) {
  std::vector<AxisCut> cuts = placement.cuts;
  const Axis axis = placement.sharded_over;
  cuts.push_back(storage_cut(box_of(shape, cuts, dims, 0).sizes, axis, dims.size(axis)));
  return cuts;
}

Box box_of(const std::vector<int64_t>& shape, const std::vector<AxisCut>& cuts,
           const ParallelDims& dims, int64_t rank) {
  Box box{std::vector<int64_t>(shape.size(), 0), shape};
  for (const AxisCut& cut : cuts) {
    const auto dim = static_cast<size_t>(cut.dim);
    TESSERA_CHECK(dim < shape.size(), "cut of dimension ", cut.dim, " of ", shape);
    const int64_t size = dims.size(cut.axis);
    TESSERA_CHECK(cut.copies >= 1 && size % cut.copies == 0, cut.copies, " copies on ",
                  axis_name(cut.axis));
    const Range part =
        part_of(box.sizes[dim], size / cut.copies, dims.index_on(cut.axis, rank) / cut.copies);
    box.offsets[dim] += part.begin;
    box.sizes[dim] = part.size();
  }
  return box;
}

}  // namespace tessera
