#include "tessera/comm/sharded_param.h"

#include <algorithm>

#include "tessera/base/error.h"

namespace tessera {
namespace {

const AxisCut* cut_by(const ShardedParam& param, const std::string& axis) {
  const auto found = std::find_if(param.cuts.begin(), param.cuts.end(),
                                  [&](const AxisCut& cut) { return cut.axis == axis; });
  return found == param.cuts.end() ? nullptr : &*found;
}

}  // namespace

Box box_of(const std::vector<int64_t>& shape, const std::vector<AxisCut>& cuts,
           const DeviceMesh& mesh) {
  Box box{std::vector<int64_t>(shape.size(), 0), shape};
  for (const AxisCut& cut : cuts) {
    const auto dim = static_cast<size_t>(cut.dim);
    TESSERA_CHECK(dim < shape.size(), "cut of dimension ", cut.dim, " of ", shape);
    const int size = mesh.size(cut.axis);
    TESSERA_CHECK(cut.copies >= 1 && size % cut.copies == 0, cut.copies, " copies on ", cut.axis);
    const Range part =
        part_of(box.sizes[dim], size / cut.copies, mesh.coordinate(cut.axis) / cut.copies);
    box.offsets[dim] += part.begin;
    box.sizes[dim] = part.size();
  }
  return box;
}

std::vector<ReplicaAxis> replica_axes(const ShardedParam& param) {
  std::vector<std::string> axes = param.expert
                                      ? std::vector<std::string>{"efsdp", "ep", "dp_replicate"}
                                      : std::vector<std::string>{"fsdp", "tp", "dp_replicate"};
  if (std::find(param.partial.begin(), param.partial.end(), "embedding") != param.partial.end()) {
    axes.emplace_back("embedding");
  }
  std::vector<ReplicaAxis> result;
  for (const std::string& axis : axes) {
    const AxisCut* cut = cut_by(param, axis);
    if (cut == nullptr) {
      result.push_back({axis, 0});
    } else if (cut->copies > 1) {
      result.push_back({axis, cut->copies});
    }
  }
  return result;
}

ProcessGroup replica_group(const ReplicaAxis& replicas, const DeviceMesh& mesh) {
  return replicas.copies == 0 ? mesh[replicas.axis]
                              : mesh.neighbours(replicas.axis, replicas.copies);
}

ShardedParam& ParamTable::add(ShardedParam param, const DeviceMesh& mesh) {
  TESSERA_CHECK(find(param.name) == nullptr, "parameter ", param.name, " is there already");
  param.box = box_of(param.shape, param.cuts, mesh);
  param.primary = true;
  for (const ReplicaAxis& replicas : replica_axes(param)) {
    if (replica_group(replicas, mesh).rank() != 0) param.primary = false;
  }
  params_.push_back(std::make_unique<ShardedParam>(std::move(param)));
  return *params_.back();
}

ShardedParam* ParamTable::find(const std::string& name) {
  for (const auto& param : params_) {
    if (param->name == name) return param.get();
  }
  return nullptr;
}

void finish_gradients(ParamTable& table, const DeviceMesh& mesh) {
  // One message per group of ranks, whatever the number of parameters. Axes in one order
  // everywhere.
  static const std::vector<std::string> kOrder = {"tp",    "cp",       "fsdp",         "ep",
                                                  "efsdp", "dp_shard", "dp_replicate", "embedding"};
  for (const std::string& axis : kOrder) {
    std::map<int, std::vector<at::Tensor>> grads;  // by copies; 0: the whole axis
    for (const auto& param : table.params()) {
      if (std::find(param->partial.begin(), param->partial.end(), axis) == param->partial.end()) {
        continue;
      }
      const AxisCut* cut = cut_by(*param, axis);
      TESSERA_CHECK(param->grad.defined(), "no gradient of ", param->name);
      grads[cut == nullptr ? 0 : cut->copies].push_back(param->grad);
    }
    for (auto& [copies, tensors] : grads) {
      replica_group({axis, copies}, mesh).all_reduce(std::move(tensors)).wait();
    }
  }
}

}  // namespace tessera
