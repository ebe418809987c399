#include "tessera/comm/sharded_param.h"

#include <algorithm>
#include <array>
#include <map>

#include "tessera/base/error.h"

namespace tessera {
namespace {

using enum Axis;

// Axes in which gradients are finished, in the one order of every rank.
constexpr std::array kOrder = {kTp, kCp, kFsdp, kEp, kEfsdp, kDpShard, kDpReplicate, kEmbedding};

}  // namespace

std::vector<ReplicaAxis> replica_axes(const ShardedParam& param) {
  std::vector<Axis> axes =
      param.expert ? std::vector{kEfsdp, kEp, kDpReplicate} : std::vector{kFsdp, kTp, kDpReplicate};
  if (std::ranges::find(param.partial, kEmbedding) != param.partial.end()) {
    axes.push_back(kEmbedding);
  }
  std::vector<ReplicaAxis> result;
  for (const Axis axis : axes) {
    const AxisCut* cut = find_cut(param.cuts, axis);
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
  for (const Axis axis : param.partial) {
    TESSERA_CHECK(std::ranges::find(kOrder, axis) != kOrder.end(), "gradients of ", param.name,
                  " are partial over ", axis_name(axis), ", over which nobody sums them");
  }
  param.box = box_of(param.shape, param.cuts, mesh.dims(), mesh.rank());
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
  // One message per group of ranks, whatever the number of parameters.
  for (const Axis axis : kOrder) {
    std::map<int, std::vector<at::Tensor>> grads;  // by copies; 0: the whole axis
    for (const auto& param : table.params()) {
      if (!param->trainable) continue;
      if (std::ranges::find(param->partial, axis) == param->partial.end()) continue;
      const AxisCut* cut = find_cut(param->cuts, axis);
      TESSERA_CHECK(param->grad.defined(), "no gradient of ", param->name);
      grads[cut == nullptr ? 0 : cut->copies].push_back(param->grad);
    }
    for (auto& [copies, tensors] : grads) {
      replica_group({axis, copies}, mesh).all_reduce(std::move(tensors)).wait();
    }
  }
}

}  // namespace tessera
