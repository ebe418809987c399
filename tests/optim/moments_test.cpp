// State in fewer bits: the same on every cut, as long as gradients are.

#include "tessera/optim/moments.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>

#include "tessera/comm/threads/run_ranks.h"
#include "tessera/config/optimizer_kind.h"
#include "tessera/optim/optimizers.h"

namespace tessera::test {
namespace {

struct Tensor {
  std::string name;
  ParamRole role;
  std::vector<int64_t> shape;
};
// Rows that are whole blocks, and others; a stack; a small matrix; a vector.
const std::vector<Tensor> kTensors = {
    {"model.layers.0.mlp.up_proj.weight", ParamRole::kMlpUp, {70, 100}},
    {"model.layers.0.mlp.down_proj.weight", ParamRole::kMlpDown, {33, 512}},
    {"model.layers.0.self_attn.o_proj.weight", ParamRole::kAttnO, {64, 90}},
    {"model.layers.0.mlp.experts.{e}.up_proj.weight", ParamRole::kExpertUp, {4, 60, 70}},
    {"model.layers.0.self_attn.q_proj.weight", ParamRole::kAttnQ, {30, 40}},
    {"model.norm.weight", ParamRole::kNorm, {50}}};

at::Tensor whole_value(const Tensor& tensor, int64_t step) {
  int64_t count = 1;
  for (const int64_t size : tensor.shape) count *= size;
  const at::Tensor i = at::arange(count, at::kDouble);
  return (at::sin(i.square() * (0.37 + 0.11 * static_cast<double>(step))) *
          at::exp(at::cos(i * 0.011)))
      .view(tensor.shape)
      .to(at::kFloat);
}

at::Tensor part_of_box(at::Tensor full, const Box& box) {
  for (size_t d = 0; d < box.sizes.size(); ++d) {
    full = full.narrow(static_cast<int64_t>(d), box.offsets[d], box.sizes[d]);
  }
  return full.contiguous();
}

// Values and widened state after three updates, put together from all ranks.
std::map<std::string, at::Tensor> updated(const std::string& type, const std::string& dtype,
                                          const ParallelDims& dims) {
  std::map<std::string, at::Tensor> all;
  std::mutex mutex;
  run_ranks(static_cast<int>(dims.world), [&](const ProcessGroup& world) {
    const DeviceMesh mesh(dims, world);
    Config config;
    config.optimizer.type = type;
    config.optimizer.kind = builtin_optimizers().find(type);
    config.optimizer.moment_dtype = dtype;
    config.optimizer.momentum = config.optimizer.kind->default_momentum;
    config.optimizer.amsgrad = type == "AdamW";
    ParamTable table;
    for (const Tensor& tensor : kTensors) {
      ShardedParam param;
      param.name = tensor.name;
      param.shape = tensor.shape;
      param.role = tensor.role;
      const Placement placement = place_parameter(tensor.role, config.model, dims);
      param.cuts = stored_cuts(placement, tensor.shape, dims);
      param.expert = placement.is_sparse();
      ShardedParam& row = table.add(std::move(param), mesh);
      row.value = part_of_box(whole_value(tensor, 0), row.box);
    }
    const auto optimizer = make_optimizer(config, table, mesh);
    for (int64_t step = 1; step <= 3; ++step) {
      for (size_t i = 0; i < kTensors.size(); ++i) {
        ShardedParam& row = *table.params()[i];
        row.grad = part_of_box(whole_value(kTensors[i], step), row.box);
      }
      optimizer->step(0.01, 1.0);
    }
    const std::lock_guard lock(mutex);
    for (size_t i = 0; i < kTensors.size(); ++i) {
      const ShardedParam& row = *table.params()[i];
      const auto put = [&](const std::string& name, const at::Tensor& value) {
        at::Tensor& whole = all[name];
        if (!whole.defined()) whole = at::zeros(kTensors[i].shape, value.options());
        at::Tensor place = whole;
        for (size_t d = 0; d < row.box.sizes.size(); ++d) {
          place = place.narrow(static_cast<int64_t>(d), row.box.offsets[d], row.box.sizes[d]);
        }
        place.copy_(value);
      };
      put(row.name, row.value);
      for (const StateTensor& state : optimizer->state(i)) {
        put(state.slot + "." + row.name, state.value);
      }
    }
  });
  return all;
}

class ShortMoments : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(ShortMoments, AreTheSameOnEveryCut) {
  const auto& [type, dtype] = GetParam();
  const auto one = updated(type, dtype, {});
  for (const ParallelDims& dims :
       {ParallelDims{.world = 3, .dp_shard = 3}, ParallelDims{.world = 2, .tp = 2},
        ParallelDims{.world = 8, .dp_replicate = 2, .dp_shard = 2, .tp = 2, .ep = 2}}) {
    const auto cut = updated(type, dtype, dims);
    ASSERT_EQ(cut.size(), one.size());
    for (const auto& [name, value] : one) {
      EXPECT_TRUE(at::equal(cut.at(name), value)) << name << " on " << dims.world;
    }
  }
}

TEST_P(ShortMoments, LargeMatricesAreShort) {
  const auto& [type, dtype] = GetParam();
  const auto one = updated(type, dtype, {});
  const at::ScalarType is = std::string(dtype) == "int8" ? at::kByte : at::kBFloat16;
  const std::string slot = std::string(type) == "Muon" ? "momentum_buffer." : "exp_avg.";
  EXPECT_EQ(one.at(slot + kTensors[0].name).scalar_type(), is);
  EXPECT_EQ(one.at(slot + kTensors[3].name).scalar_type(), is);
  EXPECT_EQ(one.at(slot + kTensors[4].name).scalar_type(), at::kFloat);
  EXPECT_EQ(one.at("exp_avg." + kTensors[5].name).scalar_type(), at::kFloat);
}

// The weights stay near those of float32 moments.
TEST_P(ShortMoments, MoveWeightsAlmostAsFloat32Does) {
  const auto& [type, dtype] = GetParam();
  const auto one = updated(type, dtype, {}), wide = updated(type, "float32", {});
  for (const Tensor& tensor : kTensors) {
    const at::Tensor change = wide.at(tensor.name) - whole_value(tensor, 0);
    const at::Tensor error = one.at(tensor.name) - wide.at(tensor.name);
    EXPECT_LT(error.norm().item<double>(), 0.15 * change.norm().item<double>()) << tensor.name;
  }
}

// Gradients whose sizes differ by four decades within a block, as they do between the rows of an
// embedding: AdamW goes about the way that it goes with float32 moments, and as far. Codes of
// second moments instead of their roots would miss it by 0.38, and go 0.17 less far.
TEST(ShortMomentsOfAdamW, GoAsFarAsFloat32) {
  const auto moved = [](const std::string& dtype) {
    at::Tensor end;
    run_ranks(1, [&](const ProcessGroup& world) {
      const DeviceMesh mesh({}, world);
      Config config;
      config.optimizer.type = "AdamW";
      config.optimizer.kind = builtin_optimizers().find("AdamW");
      config.optimizer.moment_dtype = dtype;
      config.optimizer.betas = {0.9, 0.95};
      config.optimizer.weight_decay = 0;
      ParamTable table;
      ShardedParam param;
      param.name = kTensors[0].name;
      param.shape = {64, 256};
      param.role = kTensors[0].role;
      param.cuts =
          stored_cuts(place_parameter(param.role, config.model, {}), param.shape, ParallelDims{});
      ShardedParam& row = table.add(std::move(param), mesh);
      row.value = at::zeros({64, 256});
      const auto optimizer = make_optimizer(config, table, mesh);
      const at::Tensor i = at::arange(64 * 256, at::kDouble).view({64, 256});
      const at::Tensor size = at::exp(4.6 * at::sin(i * 0.7391));
      const at::Tensor direction = at::sin(i * 2.131);
      for (int64_t step = 1; step <= 100; ++step) {
        const at::Tensor noise = at::sin(i * i * 0.017 + static_cast<double>(step * step) * 1.37);
        row.grad = (size * (0.5 * direction + noise)).to(at::kFloat);
        optimizer->step(0.01, 1.0);
      }
      end = row.value.clone();
    });
    return end;
  };
  const at::Tensor wide = moved("float32");
  for (const auto& [dtype, error, gain] :
       {std::tuple("bfloat16", 0.005, 0.0005), std::tuple("int8", 0.16, 0.02)}) {
    const at::Tensor narrow = moved(dtype);
    const double square = wide.square().sum().item<double>();
    EXPECT_LT((narrow - wide).norm().item<double>(), error * std::sqrt(square)) << dtype;
    EXPECT_NEAR((narrow * wide).sum().item<double>() / square, 1.0, gain) << dtype;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ShortMoments,
                         testing::Values(std::pair("AdamW", "bfloat16"), std::pair("AdamW", "int8"),
                                         std::pair("Muon", "bfloat16"), std::pair("Muon", "int8")),
                         [](const auto& info) {
                           return std::string(info.param.first) + "_" + info.param.second;
                         });

}  // namespace
}  // namespace tessera::test
