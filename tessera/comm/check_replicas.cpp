#include <ATen/ATen.h>

#include <map>
#include <sstream>

#include "tessera/comm/gather_text.h"
#include "tessera/comm/sharded_param.h"
#include "tessera/data/hash.h"

namespace tessera {
namespace {

int64_t hash_bits(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.contiguous().cpu();
  const auto* bytes = static_cast<const std::byte*>(dense.const_data_ptr());
  return static_cast<int64_t>(checksum64(bytes, static_cast<int64_t>(dense.nbytes())));
}

}  // namespace

std::vector<ReplicaDifference> check_replicas(const ParamTable& table, const DeviceMesh& mesh,
                                              bool gradients) {
  // Per group of copies one message of hashes; what differs is told to the whole world as text.
  std::map<std::pair<Axis, int>, std::vector<const ShardedParam*>> copies;
  for (const auto& param : table.params()) {
    if (gradients && !param->trainable) continue;
    for (const ReplicaAxis& replicas : replica_axes(*param)) {
      copies[{replicas.axis, replicas.copies}].push_back(param.get());
    }
  }
  std::ostringstream found;
  for (const auto& [key, params] : copies) {
    const ProcessGroup group = replica_group({key.first, key.second}, mesh);
    if (group.size() == 1) continue;
    at::Tensor own = at::empty({static_cast<int64_t>(params.size())}, at::kLong);
    for (size_t i = 0; i < params.size(); ++i) {
      own.mutable_data_ptr<int64_t>()[i] =
          hash_bits(gradients ? params[i]->grad : params[i]->value);
    }
    at::Tensor all = at::empty({own.numel() * group.size()}, at::kLong);
    group.all_gather({all}, {own}).wait();
    if (group.rank() != 0) continue;
    const auto* hashes = all.const_data_ptr<int64_t>();
    for (size_t i = 0; i < params.size(); ++i) {
      std::ostringstream ranks;
      for (int r = 1; r < group.size(); ++r) {
        if (hashes[static_cast<size_t>(r) * params.size() + i] != hashes[i]) {
          ranks << ' ' << group.ranks()[static_cast<size_t>(r)];
        }
      }
      if (!ranks.str().empty()) {
        found << params[i]->name << ' ' << axis_name(key.first) << ranks.str() << '\n';
      }
    }
  }
  std::map<std::pair<std::string, Axis>, ReplicaDifference> differences;
  for (const std::string& text : gather_texts(mesh[Axis::kWorld], found.str())) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      ReplicaDifference difference;
      std::string axis;
      words >> difference.name >> axis;
      difference.axis = axis_from_name(axis).value();
      auto& merged =
          differences.try_emplace({difference.name, difference.axis}, difference).first->second;
      for (int rank; words >> rank;) merged.ranks.push_back(rank);
    }
  }
  std::vector<ReplicaDifference> result;
  for (auto& [key, difference] : differences) result.push_back(std::move(difference));
  return result;
}

}  // namespace tessera
