// float32 masters and sums under bfloat16 weights and gradients.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/comm/threads/run_ranks.h"
#include "tessera/config/optimizer_kind.h"
#include "tessera/optim/optimizers.h"
#include "tessera/parallel/sharded_unit.h"

namespace tessera {
namespace {

ParallelDims dims_of(int64_t shard) {
  ParallelDims dims;
  dims.dp_shard = shard;
  dims.world = shard;
  return dims;
}

struct OneWeight {
  Weight weight;
  ParamTable table;
  std::unique_ptr<ShardedUnit> unit;

  OneWeight(const DeviceMesh& mesh, at::ScalarType storage, at::ScalarType use) {
    ParameterPart part;
    part.name = "w";
    part.shape = {4, 3};
    part.storage = storage;
    weight.parts = {part};
    weight.dtype = use;
    unit = std::make_unique<ShardedUnit>("unit", std::vector<Weight*>{&weight}, mesh, Axis::kFsdp,
                                         at::kFloat, table);
  }
  ShardedParam& row() { return *table.params().front(); }
};

Config sgd() {
  Config config;
  config.optimizer.type = "SGD";
  config.optimizer.kind = builtin_optimizers().find("SGD");
  config.optimizer.momentum = 0;
  config.optimizer.weight_decay = 0;
  return config;
}

// Updates smaller than half a step of bfloat16 at 1.0 add up; the weight in use and what is stored
// are the rounded master.
TEST(MasterWeights, MoveUnderBfloat16Storage) {
  for (const int64_t ranks : {1, 2}) {
    for (const auto use : {at::kFloat, at::kBFloat16}) {
      run_ranks(static_cast<int>(ranks), [&](const ProcessGroup& world) {
        const DeviceMesh mesh(dims_of(ranks), world);
        OneWeight s(mesh, at::kBFloat16, use);
        s.row().value.fill_(1.0);
        const auto optimizer = make_optimizer(sgd(), s.table, mesh);
        for (int step = 0; step < 10; ++step) {
          s.unit->unshard();
          s.unit->end_use(true);
          s.row().grad = at::ones_like(s.row().value);
          optimizer->step(1e-3, 1.0);
        }
        EXPECT_NEAR(s.row().value.flatten()[0].item<double>(), 0.99, 1e-6);
        s.unit->unshard();
        EXPECT_EQ(s.weight.value.scalar_type(), use);
        EXPECT_EQ(s.weight.value[3][2].item<double>(), 0.98828125);
        s.unit->end_use(true);
      });
    }
  }
}

// Micro-batches' gradients: one of 1.0, then 512 of 0.001, below half a step of bfloat16 at 1.0.
TEST(MainGradients, AddUpInFloat32) {
  for (const int64_t ranks : {1, 2}) {
    for (const bool defer : {false, true}) {
      run_ranks(static_cast<int>(ranks), [&](const ProcessGroup& world) {
        const DeviceMesh mesh(dims_of(ranks), world);
        OneWeight s(mesh, at::kBFloat16, at::kBFloat16);
        const auto options = at::TensorOptions().dtype(at::kBFloat16);
        for (int micro = 0; micro <= 512; ++micro) {
          const double value = micro == 0 ? 1.0 : 0.001;
          s.unit->add_gradients({at::full({4, 3}, value, options)}, defer && micro < 512);
        }
        s.unit->wait_reduce();
        EXPECT_EQ(s.row().grad.scalar_type(), at::kFloat);
        const double rounded = 0.001 * 0.9995;  // 0.001 itself rounds when it becomes bfloat16
        EXPECT_NEAR(s.row().grad.flatten()[0].item<double>() / static_cast<double>(ranks),
                    1.0 + 512 * rounded, 1e-3);
      });
    }
  }
}

}  // namespace
}  // namespace tessera
