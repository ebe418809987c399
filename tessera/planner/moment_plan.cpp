#include "tessera/planner/moment_plan.h"

#include <algorithm>
#include <string>

#include "tessera/base/error.h"
#include "tessera/config/optimizer_kind.h"
#include "tessera/layout/dtypes.h"
#include "tessera/layout/placement.h"
#include "tessera/layout/updates/moment_batches.h"
#include "tessera/layout/updates/moment_blocks.h"
#include "tessera/layout/updates/moment_type.h"

namespace tessera {
namespace {

std::vector<Slot> slots_of(const OptimizerConfig& optimizer, const StateOwner& owner) {
  TESSERA_CHECK(optimizer.kind != nullptr, "a plan for an optimizer whose kind is not known");
  return optimizer.kind->slots(optimizer, owner);
}

int64_t stack_of(const std::vector<int64_t>& shape) { return shape.size() == 3 ? shape[0] : 1; }

}  // namespace

int64_t moment_bytes(const Config& config, const ParallelDims& dims, const TensorGroup& group,
                     int64_t rank) {
  const Placement placement = place_parameter(group.role, config.model, dims);
  const Box box = box_of(group.shape, stored_cuts(placement, group.shape, dims), dims, rank);
  const int64_t element = size_of(master_dtype(config.model));
  int64_t bytes = 0;
  if (group.frozen) return bytes;
  for (const std::string& name : group.names) {
    const StateOwner owner{name, group.role, group.shape};
    for (const Slot& slot : slots_of(config.optimizer, owner)) {
      switch (moment_type(config.optimizer, slot, owner)) {
        case MomentType::kMaster: bytes += box.numel() * element; break;
        case MomentType::kBfloat16: bytes += box.numel() * size_of(DType::kBFloat16); break;
        case MomentType::kInt8:
          bytes += box.numel() + stack_of(box.sizes) * size_of(DType::kFloat32) *
                                     matrix_blocks(group.shape.back(), matrix_box(box)).count;
          break;
      }
    }
  }
  return bytes;
}

OpenedMoments plan_opened(const Config& config, const ParallelDims& dims, const StageUnits& stage,
                          int64_t rank) {
  OpenedMoments opened;
  std::vector<MomentTensor> tensors;
  std::vector<int64_t> coded;  // slots of each tensor
  for (const ModelUnit& unit : stage.units) {
    for (const TensorGroup& group : unit.tensors) {
      if (group.frozen) continue;
      const Placement placement = place_parameter(group.role, config.model, dims);
      for (const std::string& name : group.names) {
        const StateOwner owner{name, group.role, group.shape};
        MomentTensor tensor{name, group.shape, stored_cuts(placement, group.shape, dims), 0};
        int64_t codes = 0;
        for (const Slot& slot : slots_of(config.optimizer, owner)) {
          const MomentType type = moment_type(config.optimizer, slot, owner);
          if (type != MomentType::kMaster) ++tensor.shortened;
          if (type == MomentType::kInt8) ++codes;
        }
        if (tensor.shortened == 0) continue;
        tensors.push_back(std::move(tensor));
        coded.push_back(codes);
      }
    }
  }
  for (const std::vector<size_t>& batch : moment_batches(tensors, dims, rank)) {
    int64_t elements = 0, shared = 0;
    for (const size_t i : batch) {
      const MomentTensor& tensor = tensors[i];
      elements += tensor.shortened * box_of(tensor.shape, tensor.cuts, dims, rank).numel();
      if (coded[i] == 0) continue;
      const size_t rows = tensor.shape.size() - 2;
      const CutLines cuts = cut_lines(tensor.shape, tensor.cuts, dims, rank);
      shared += coded[i] * stack_of(tensor.shape) *
                static_cast<int64_t>(
                    divided_blocks(tensor.shape[rows], tensor.shape[rows + 1], cuts).size());
    }
    opened.bytes = std::max(opened.bytes, elements * size_of(master_dtype(config.model)) +
                                              shared * size_of(DType::kFloat32));
    if (shared > 0) opened.shared.push_back(shared);
  }
  return opened;
}

}  // namespace tessera
