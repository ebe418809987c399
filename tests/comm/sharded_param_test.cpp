// Boxes, who counts them, finishing of gradients, replica check.

#include "tessera/comm/sharded_param.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/comm/threads/run_ranks.h"
#include "tests/comm/dims.h"

namespace tessera {
namespace {

using test::dims_of;

at::Tensor whole(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return at::arange(count, at::kDouble).reshape(shape);
}

at::Tensor part(const at::Tensor& full, const Box& box) {
  at::Tensor view = full;
  for (size_t d = 0; d < box.sizes.size(); ++d) {
    view = view.narrow(static_cast<int64_t>(d), box.offsets[d], box.sizes[d]);
  }
  return view.contiguous();
}

struct Entry {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<AxisCut> cuts;
  bool expert = false;
};

// What a dense and a sparse layer hold: matrices cut twice along one dimension and along two, kv
// heads with copies, a norm that nobody cuts but fsdp, stacked experts.
const std::vector<Entry> kEntries = {
    {"column", {22, 5}, {{Axis::kTp, 0}, {Axis::kFsdp, 0}}},
    {"row", {7, 12}, {{Axis::kTp, 1}, {Axis::kFsdp, 0}}},
    {"kv", {6, 5}, {{Axis::kTp, 0, 2}, {Axis::kFsdp, 0}}},
    {"norm", {3}, {{Axis::kFsdp, 0}}},
    {"scalar_rows", {1}, {{Axis::kFsdp, 0}}},
    {"replicated", {4, 2}, {}},
    {"experts.{e}", {6, 5, 4}, {{Axis::kEp, 0}, {Axis::kEfsdp, 1}}, true},
};

ParamTable make_table(const DeviceMesh& mesh) {
  ParamTable table;
  for (const Entry& entry : kEntries) {
    ShardedParam param;
    param.name = entry.name;
    param.shape = entry.shape;
    param.cuts = entry.cuts;
    for (AxisCut& cut : param.cuts) {
      if (mesh.size(cut.axis) % cut.copies != 0) cut.copies = 1;
    }
    param.expert = entry.expert;
    ShardedParam& added = table.add(std::move(param), mesh);
    added.value = part(whole(entry.shape), added.box);
    added.grad = at::zeros_like(added.value);
  }
  return table;
}

const std::vector<ParallelDims> kLayouts = {
    dims_of(1, 1, 1, 1, 1),    dims_of(1, 2, 2, 1, 2),    dims_of(1, 1, 2, 2, 2, 2),
    dims_of(1, 2, 1, 1, 4, 2), dims_of(1, 1, 3, 1, 2, 6), dims_of(1, 1, 8, 1, 1, 4),
};

TEST(ShardedParam, PrimaryBoxesTileEveryParameter) {
  for (const ParallelDims& dims : kLayouts) {
    run_ranks(static_cast<int>(dims.world), [&](const ProcessGroup& world) {
      const DeviceMesh mesh(dims, world);
      const ParamTable table = make_table(mesh);
      for (const auto& param : table.params()) {
        const Box& box = param->box;
        at::Tensor counted = at::zeros(param->shape, at::kLong);
        at::Tensor held = at::zeros(param->shape, at::kLong);
        const auto add = [&](const at::Tensor& to, int64_t amount) {
          at::Tensor view = to;
          for (size_t d = 0; d < box.sizes.size(); ++d) {
            view = view.narrow(static_cast<int64_t>(d), box.offsets[d], box.sizes[d]);
          }
          view.add_(amount);
        };
        add(counted, param->primary ? 1 : 0);
        add(held, 1);
        world.all_reduce({counted, held}).wait();
        EXPECT_TRUE(at::all(counted == 1).item<bool>()) << param->name;
        EXPECT_TRUE(at::all(held == held.max()).item<bool>()) << param->name;
      }
    });
  }
}

TEST(ShardedParam, WhatCannotBeARowIsRefused) {
  run_ranks(1, [](const ProcessGroup& world) {
    const DeviceMesh mesh(dims_of(1, 1, 1, 1, 1), world);
    ParamTable table = make_table(mesh);
    EXPECT_EQ(table.find("norm")->shape, (std::vector<int64_t>{3}));
    EXPECT_EQ(table.find("nothing"), nullptr);
    ShardedParam again;
    again.name = "norm";
    again.shape = {3};
    EXPECT_THROW(table.add(again, mesh), InternalError);
    again.name = "partial over what nobody sums";
    again.partial = {Axis::kPp};
    EXPECT_THROW(table.add(again, mesh), InternalError);
  });
}

TEST(FinishGradients, SumsOverPartialAxesAndCopies) {
  run_ranks(8, [](const ProcessGroup& world) {
    const DeviceMesh mesh(dims_of(1, 2, 1, 1, 4), world);
    ParamTable table = make_table(mesh);
    table.find("norm")->partial = {Axis::kTp};
    table.find("kv")->partial = {Axis::kTp, Axis::kDpReplicate};
    table.find("column")->partial = {Axis::kDpReplicate};
    for (const auto& param : table.params()) param->grad.fill_(1 << world.rank());
    finish_gradients(table, mesh);
    const int t = world.rank() % 4, r = world.rank() / 4;
    const auto grad = [&](const char* name) {
      const at::Tensor& tensor = table.find(name)->grad;
      EXPECT_EQ(tensor.min().item<double>(), tensor.max().item<double>());
      return tensor.max().item<double>();
    };
    EXPECT_EQ(grad("norm"), (r == 0 ? 15 : 15 * 16));
    EXPECT_EQ(grad("kv"), (t < 2 ? 3 : 12) * 17);  // two copies, two replicas
    EXPECT_EQ(grad("column"), (1 << t) * 17);
    EXPECT_EQ(grad("row"), 1 << world.rank());
    EXPECT_TRUE(check_replicas(table, mesh, /*gradients=*/false).empty());
  });
}

TEST(CheckReplicas, NamesWhatDiffersWhere) {
  run_ranks(8, [](const ProcessGroup& world) {
    const DeviceMesh mesh(dims_of(1, 2, 1, 1, 4), world);
    ParamTable table = make_table(mesh);
    EXPECT_TRUE(check_replicas(table, mesh).empty());
    // One bit, on one rank: a zero of the other sign.
    if (world.rank() == 5) table.find("norm")->value[0] = -0.0;
    const auto found = check_replicas(table, mesh);
    ASSERT_EQ(found.size(), 2);
    for (const ReplicaDifference& difference : found) {
      EXPECT_EQ(difference.name, "norm");
      EXPECT_EQ(difference.ranks, (std::vector<int>{5}));
    }
    EXPECT_EQ(found[0].axis, Axis::kDpReplicate);
    EXPECT_EQ(found[1].axis, Axis::kTp);
  });
}

}  // namespace
}  // namespace tessera
