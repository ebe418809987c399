#include "tessera/comm/fake_group.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/base/box.h"
#include "tessera/base/error.h"
#include "tessera/comm/device_mesh.h"
#include "tessera/comm/threads/run_ranks.h"

namespace tessera {
namespace {

// The same calls, whatever the group.
CommStats traffic(const ProcessGroup& group) {
  const int n = group.size();
  const int64_t rows = part_of(11, n, group.rank()).size();
  const at::Tensor full = at::ones({11, 3}, at::kFloat);
  const at::Tensor shard = at::ones({rows, 3}, at::kFloat);
  group.all_gather({full}, {shard}).wait();
  group.reduce_scatter({shard}, {full}, true).wait();
  group.all_reduce({full}, ReduceOp::kMax).wait();
  group.broadcast({full}, n - 1).wait();
  const std::vector<int64_t> splits(static_cast<size_t>(n), 2);
  group.all_to_all(at::zeros({2 * n, 3}), at::ones({2 * n, 3}), splits, splits).wait();
  group.send(full, (group.rank() + 1) % n, 0).wait();
  group.recv(full, (group.rank() + n - 1) % n, 0).wait();
  group.barrier();
  return group.stats();
}

TEST(FakeGroup, CountsWhatARealGroupCounts) {
  for (const int n : {1, 2, 3, 8}) {
    run_ranks(n, [n](const ProcessGroup& group) {
      const CommStats real = traffic(group);
      const CommStats fake = traffic(fake_group(group.rank(), n));
      ASSERT_EQ(real.operations.size(), fake.operations.size());
      for (const auto& [operation, count] : real.operations) {
        EXPECT_EQ(fake.operations.at(operation).calls, count.calls) << operation;
        EXPECT_EQ(fake.operations.at(operation).bytes, count.bytes) << operation;
      }
    });
  }
}

TEST(FakeGroup, AnyRankOfALargeMesh) {
  ParallelDims dims;
  dims.pp = 4;
  dims.dp_replicate = 2;
  dims.dp_shard = 8;
  dims.cp = 2;
  dims.tp = 8;
  dims.ep = 32;
  dims.world = 1024;
  const DeviceMesh mesh(dims, fake_group(777, 1024));
  EXPECT_EQ(mesh.rank(), 777);
  EXPECT_EQ(mesh.size(Axis::kEp), 32);
  EXPECT_EQ(mesh.coordinate(Axis::kTp), 777 % 8);
  at::Tensor full = at::ones({100, 2}, at::kFloat);
  const at::Tensor shard = at::full({7, 2}, 5, at::kFloat);
  if (mesh.coordinate(Axis::kFsdp) < 14) mesh[Axis::kFsdp].all_gather({full}, {shard}).wait();
}

TEST(FakeGroup, KeepsOwnPartAndZerosTheRest) {
  const ProcessGroup group = fake_group(1, 3);
  at::Tensor full = at::ones({5}, at::kFloat);
  group.all_gather({full}, {at::full({2}, 7, at::kFloat)}).wait();
  EXPECT_TRUE(at::equal(full, at::tensor({0.F, 0.F, 7.F, 7.F, 0.F})));
  EXPECT_THROW(fake_group(3, 3), InternalError);
}

}  // namespace
}  // namespace tessera
