#include "tessera/comm/device_mesh.h"

#include <string>
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

}  // namespace

DeviceMesh::DeviceMesh(const ParallelDims& dims, const ProcessGroup& world) : dims_(dims) {
  TESSERA_CHECK_EQ(dims.world, world.size(), "the world of the mesh");
  std::map<Members, Axis> made;  // members -> the first axis that has them
  made.emplace(members_of(dims, Axis::kWorld), Axis::kWorld);
  groups_.emplace(Axis::kWorld, world.alias(std::string(axis_name(Axis::kWorld))));
  for (const Axis axis : kAllAxes) {
    if (axis == Axis::kWorld) continue;
    const std::string name(axis_name(axis));
    const Members members = members_of(dims, axis);
    const auto [same, added] = made.emplace(members, axis);
    groups_.emplace(axis,
                    added ? world.split(members, name) : groups_.at(same->second).alias(name));
  }
}

const ProcessGroup& DeviceMesh::operator[](Axis axis) const { return groups_.at(axis); }

ProcessGroup DeviceMesh::neighbours(Axis axis, int count) const {
  return part(axis, count, /*between=*/false);
}

ProcessGroup DeviceMesh::between(Axis axis, int count) const {
  return part(axis, count, /*between=*/true);
}

ProcessGroup DeviceMesh::part(Axis axis, int count, bool between) const {
  const ProcessGroup& group = (*this)[axis];
  TESSERA_CHECK(count >= 1 && group.size() % count == 0, count, " neighbours on ", axis_name(axis));
  const int parts = between ? count : group.size() / count;
  if (parts == 1) return group;
  ProcessGroup& made = parts_[{axis, count, between}];
  if (!made) {
    Members members(static_cast<size_t>(parts));
    for (int i = 0; i < group.size(); ++i) {
      members[static_cast<size_t>(between ? i % count : i / count)].push_back(
          group.ranks()[static_cast<size_t>(i)]);
    }
    std::string name(axis_name(axis));
    name.append(between ? "/between/" : "/").append(std::to_string(count));
    made = group.split(members, name);
  }
  return made;
}

int DeviceMesh::coordinate(Axis axis) const { return (*this)[axis].rank(); }

int DeviceMesh::size(Axis axis) const { return (*this)[axis].size(); }

int DeviceMesh::rank() const { return (*this)[Axis::kWorld].rank(); }

at::Device DeviceMesh::device() const { return (*this)[Axis::kWorld].device(); }

}  // namespace tessera
