#include "tessera/comm/device_mesh.h"

#include <vector>

#include "tessera/base/error.h"

namespace tessera {
namespace {

using Members = std::vector<std::vector<int>>;

Members members_of(const ParallelDims& dims, Axis axis) {
  Members members;
  for (const std::vector<int64_t>& group : dims.groups(axis)) {
    members.emplace_back(group.begin(), group.end());
  }
  return members;
}

Members first_and_last_stages(const ParallelDims& dims) {
  Members members;
  for (const std::vector<int64_t>& column : dims.groups(Axis::kPp)) {
    members.push_back({static_cast<int>(column.front())});
    if (column.size() > 1) members.back().push_back(static_cast<int>(column.back()));
    for (size_t stage = 1; stage + 1 < column.size(); ++stage) {
      members.push_back({static_cast<int>(column[stage])});
    }
  }
  return members;
}

}  // namespace

DeviceMesh::DeviceMesh(const ParallelDims& dims, const ProcessGroup& world) : dims_(dims) {
  TESSERA_CHECK_EQ(dims.world, world.size(), "the world of the mesh");
  std::map<Members, std::string> made;  // members -> the first axis that has them
  Members everyone(1);
  for (int rank = 0; rank < world.size(); ++rank) everyone[0].push_back(rank);
  groups_.emplace("world", world.alias("world"));
  made.emplace(everyone, "world");
  const auto add = [&](const std::string& axis, const Members& members) {
    const auto [same, added] = made.emplace(members, axis);
    groups_.emplace(axis,
                    added ? world.split(members, axis) : groups_.at(same->second).alias(axis));
  };
  for (const Axis axis : kAllAxes) add(std::string(axis_name(axis)), members_of(dims, axis));
  add("embedding", first_and_last_stages(dims));
}

const ProcessGroup& DeviceMesh::operator[](std::string_view axis) const {
  const auto found = groups_.find(axis);
  TESSERA_CHECK(found != groups_.end(), "the mesh has no axis ", axis);
  return found->second;
}

ProcessGroup DeviceMesh::neighbours(std::string_view axis, int count) const {
  return part(axis, count, /*between=*/false);
}

ProcessGroup DeviceMesh::between(std::string_view axis, int count) const {
  return part(axis, count, /*between=*/true);
}

ProcessGroup DeviceMesh::part(std::string_view axis, int count, bool between) const {
  const ProcessGroup& group = (*this)[axis];
  TESSERA_CHECK(count >= 1 && group.size() % count == 0, count, " neighbours on ", axis);
  const int parts = between ? count : group.size() / count;
  if (parts == 1) return group;
  std::string name(axis);
  name.append(between ? "/between/" : "/").append(std::to_string(count));
  ProcessGroup& made = parts_[name];
  if (!made) {
    Members members(static_cast<size_t>(parts));
    for (int i = 0; i < group.size(); ++i) {
      members[static_cast<size_t>(between ? i % count : i / count)].push_back(
          group.ranks()[static_cast<size_t>(i)]);
    }
    made = group.split(members, name);
  }
  return made;
}

int DeviceMesh::coordinate(std::string_view axis) const { return (*this)[axis].rank(); }

int DeviceMesh::size(std::string_view axis) const { return (*this)[axis].size(); }

int DeviceMesh::rank() const { return groups_.at("world").rank(); }

at::Device DeviceMesh::device() const { return groups_.at("world").device(); }

}  // namespace tessera
