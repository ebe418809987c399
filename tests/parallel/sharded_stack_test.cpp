// The storage of stacked matrices over more ranks than there are matrices.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/base/box.h"
#include "tessera/comm/threads/run_ranks.h"
#include "tessera/parallel/sharded_unit.h"
#include "tests/comm/dims.h"

namespace tessera::test {
namespace {

constexpr int kRanks = 4;
const std::vector<int64_t> kShape = {3, 5, 2};  // experts, rows, columns; 5 rows: 2, 2, 1, 0

Weight stack_of_two_parts(at::ScalarType use) {
  Weight weight;
  weight.dtype = use;
  for (const char* name : {"gate.{e}", "up.{e}"}) {
    ParameterPart part;
    part.name = name;
    part.shape = kShape;
    weight.parts.push_back(part);
  }
  return weight;
}

// [2 x 3, 5, 2], all different, exact in bfloat16.
at::Tensor whole() { return at::arange(60, at::kFloat).view({6, 5, 2}); }

at::Tensor own_part(const at::Tensor& stack, const Box& box) {
  return stack.narrow(0, box.offsets[0], box.sizes[0]).narrow(1, box.offsets[1], box.sizes[1]);
}

TEST(ShardedStack, EveryMatrixIsCutWhereThereAreFewerThanRanks) {
  for (const at::ScalarType use : {at::kFloat, at::kBFloat16}) {
    run_ranks(kRanks, [&](const ProcessGroup& world) {
      const DeviceMesh mesh(dims_of(1, 1, kRanks, 1, 1), world);
      Weight weight = stack_of_two_parts(use);
      ParamTable table;
      ShardedUnit unit("unit", {&weight}, mesh, Axis::kFsdp, at::kFloat, table);
      const std::vector<at::Tensor> stacks = whole().split(3);
      for (size_t i = 0; i < 2; ++i) {
        ShardedParam& row = *table.params()[i];
        EXPECT_EQ(row.box.sizes,
                  (std::vector<int64_t>{3, part_of(5, kRanks, world.rank()).size(), 2}));
        row.value.copy_(own_part(stacks[i], row.box));
      }
      unit.unshard();
      EXPECT_TRUE(at::equal(weight.value.detach().to(at::kFloat), whole()));
      unit.end_use(true);
      for (int64_t micro_batch = 1; micro_batch <= 2; ++micro_batch) {
        unit.add_gradients({(whole() * (world.rank() + 1)).to(use)}, /*defer=*/false);
        unit.wait_reduce();
        for (size_t i = 0; i < 2; ++i) {
          const ShardedParam& row = *table.params()[i];
          const at::Tensor expected = own_part(stacks[i], row.box) * 10 * micro_batch;
          EXPECT_TRUE(at::equal(row.grad, expected)) << use;
        }
      }
    });
  }
}

// As many matrices as ranks, or more: whole ones.
TEST(ShardedStack, WholeMatricesWhereTheyAreEnough) {
  run_ranks(3, [](const ProcessGroup& world) {
    const DeviceMesh mesh(dims_of(1, 1, 3, 1, 1), world);
    Weight weight = stack_of_two_parts(at::kFloat);
    ParamTable table;
    const ShardedUnit unit("unit", {&weight}, mesh, Axis::kFsdp, at::kFloat, table);
    EXPECT_EQ(table.params()[0]->box.sizes, (std::vector<int64_t>{1, 5, 2}));
  });
}

}  // namespace
}  // namespace tessera::test
