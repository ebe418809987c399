// Groups of the mesh against the rank formulas written out, for worlds that cut every axis.

#include "tessera/comm/device_mesh.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/comm/threads/run_ranks.h"
#include "tests/comm/dims.h"

namespace tessera {
namespace {

using test::dims_of;

using Ranks = std::vector<int>;

TEST(DeviceMesh, GroupsOfSixteenRanks) {
  // P=2, S=2, C=2, T=2, E=4: rank = ((p*S + s)*C + c)*T + t; experts p*8 + ef*4 + e.
  run_ranks(16, [](const ProcessGroup& world) {
    const DeviceMesh mesh(dims_of(2, 1, 2, 2, 2, 4), world);
    const int rank = world.rank();
    const int p = rank / 8, s = rank / 4 % 2, c = rank / 2 % 2, t = rank % 2;
    const int base = p * 8;
    EXPECT_EQ(mesh[Axis::kTp].ranks(), (Ranks{rank - t, rank - t + 1}));
    EXPECT_EQ(mesh[Axis::kCp].ranks(), (Ranks{rank - 2 * c, rank - 2 * c + 2}));
    EXPECT_EQ(mesh[Axis::kDpShard].ranks(), (Ranks{rank - 4 * s, rank - 4 * s + 4}));
    EXPECT_EQ(mesh[Axis::kFsdp].ranks(),
              (Ranks{base + t, base + 2 + t, base + 4 + t, base + 6 + t}));
    EXPECT_EQ(mesh[Axis::kLoss].ranks(), mesh[Axis::kFsdp].ranks());
    EXPECT_EQ(mesh[Axis::kBatch].ranks(), mesh[Axis::kDpShard].ranks());
    EXPECT_EQ(mesh[Axis::kPp].ranks(), (Ranks{rank % 8, rank % 8 + 8}));
    EXPECT_EQ(mesh[Axis::kDpReplicate].ranks(), (Ranks{rank}));
    const int first = rank / 4 * 4;
    EXPECT_EQ(mesh[Axis::kEp].ranks(), (Ranks{first, first + 1, first + 2, first + 3}));
    EXPECT_EQ(mesh[Axis::kEfsdp].ranks(), (Ranks{base + rank % 4, base + rank % 4 + 4}));
    EXPECT_EQ(mesh[Axis::kWorld].size(), 16);
    EXPECT_EQ(mesh.coordinate(Axis::kPp), p);
    EXPECT_EQ(mesh.coordinate(Axis::kFsdp), s * 2 + c);
    EXPECT_EQ(mesh.coordinate(Axis::kEp), rank % 4);
    EXPECT_EQ(mesh.size(Axis::kEfsdp), 2);
    EXPECT_EQ(mesh.rank(), rank);
  });
}

TEST(DeviceMesh, EveryGroupReducesOverItsMembers) {
  run_ranks(12, [](const ProcessGroup& world) {
    const DeviceMesh mesh(dims_of(1, 2, 3, 1, 2, 3), world);
    for (const auto& [axis, group] : mesh.groups()) {
      at::Tensor sum = at::full({2}, world.rank(), at::kLong);
      group.all_reduce({sum}).wait();
      int64_t expected = 0;
      for (int member : group.ranks()) expected += member;
      EXPECT_EQ(sum[1].item<int64_t>(), expected) << axis_name(axis);
      EXPECT_EQ(group.ranks()[group.rank()], world.rank()) << axis_name(axis);
      EXPECT_EQ(group.name(), axis_name(axis));
      EXPECT_EQ(group.stats().operations.at("all_reduce").calls, 1) << axis_name(axis);
    }
  });
}

TEST(DeviceMesh, EqualAxesShareATransportInOrder) {
  run_ranks(4, [](const ProcessGroup& world) {
    const DeviceMesh mesh(dims_of(1, 1, 4, 1, 1), world);
    at::Tensor a = at::ones({1}), b = at::ones({1});
    Work first = mesh[Axis::kFsdp].all_reduce({a});
    Work second = mesh[Axis::kLoss].all_reduce({b});
    second.wait();
    first.wait();
    EXPECT_EQ(a.item<float>(), 4);
    EXPECT_EQ(b.item<float>(), 4);
    EXPECT_EQ(mesh[Axis::kFsdp].stats().total_bytes(), 2 * 3 * 4 / 4);
  });
}

TEST(DeviceMesh, EmbeddingHoldsFirstAndLastStage) {
  run_ranks(6, [](const ProcessGroup& world) {
    const DeviceMesh mesh(dims_of(3, 1, 2, 1, 1), world);
    const int rank = world.rank();
    const Ranks ends = {rank % 2, rank % 2 + 4};
    EXPECT_EQ(mesh[Axis::kEmbedding].ranks(), rank / 2 == 1 ? Ranks{rank} : ends);
  });
}

TEST(DeviceMesh, Neighbours) {
  run_ranks(8, [](const ProcessGroup& world) {
    const DeviceMesh mesh(dims_of(1, 1, 2, 1, 4), world);
    const int first = world.rank() / 2 * 2;
    EXPECT_EQ(mesh.neighbours(Axis::kTp, 2).ranks(), (Ranks{first, first + 1}));
    EXPECT_THROW(mesh.neighbours(Axis::kTp, 3), InternalError);
    const int place = world.rank() / 4 * 4 + world.rank() % 2;
    EXPECT_EQ(mesh.between(Axis::kTp, 2).ranks(), (Ranks{place, place + 2}));
    EXPECT_EQ(mesh.between(Axis::kTp, 4).size(), 1);
    // What they send counts for the axis; all of it is the axis itself.
    mesh.between(Axis::kTp, 2).all_reduce({at::ones({3})}).wait();
    mesh.between(Axis::kTp, 1).all_reduce({at::ones({3})}).wait();
    mesh.neighbours(Axis::kTp, 4).all_reduce({at::ones({3})}).wait();
    EXPECT_EQ(mesh[Axis::kTp].stats().operations.at("all_reduce").calls, 3);
  });
}

TEST(DeviceMesh, AWorldOfAnotherSizeIsRefused) {
  run_ranks(2, [](const ProcessGroup& world) {
    EXPECT_THROW(DeviceMesh(dims_of(1, 1, 4, 1, 1), world), InternalError);
  });
}

}  // namespace
}  // namespace tessera
