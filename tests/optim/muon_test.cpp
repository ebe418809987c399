#include "tessera/optim/muon.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/comm/threads/run_ranks.h"
#include "tessera/config/optimizer_kind.h"
#include "tessera/optim/newton_schulz.h"
#include "tests/support/case_path.h"
#include "tests/support/json_files.h"

namespace tessera::test {
namespace {

using nlohmann::json;

at::Tensor matrix_of(const json& rows) {
  std::vector<double> flat;
  for (const json& row : rows) {
    for (const json& value : row) flat.push_back(value.get<double>());
  }
  const auto count = static_cast<int64_t>(rows.size());
  return at::tensor(flat, at::kDouble).view({count, static_cast<int64_t>(flat.size()) / count});
}

NewtonSchulzTriple triple_of(const json& numbers, int64_t count) {
  return {numbers[0], numbers[1], numbers[2], count};
}

Config config_of(const json& item) {
  Config config;
  OptimizerConfig& o = config.optimizer;
  o.type = "Muon";
  o.kind = builtin_optimizers().find("Muon");
  o.momentum = item.at("momentum");
  o.nesterov = item.at("nesterov");
  o.matched_adamw_rms = item.at("matched_adamw_rms");
  o.eps = item.at("eps");
  o.weight_decay = item.at("weight_decay");
  o.qk_clip_enabled = false;
  o.ns_coefficients.clear();
  const json& coefficients = item.at("ns_coefficients");
  if (coefficients[0].is_number()) {
    o.ns_coefficients = {triple_of(coefficients, 0)};
    o.ns_steps = item.at("ns_steps");
  } else {
    for (const json& run : coefficients) {
      o.ns_coefficients.push_back(triple_of(run[0], run[1]));
    }
  }
  return config;
}

// The role whose pieces the case describes.
ParamRole role_of(const json& item, ModelConfig& model) {
  const std::string split = item.at("split");
  if (split == "whole") return ParamRole::kAttnQ;
  if (split == "slabs") {
    model.kv_lora_rank = item.at("sizes")[0];
    model.qk_rope_head_dim = item.at("sizes")[1];
    return ParamRole::kMlaKvA;
  }
  model.qk_nope_head_dim = item.at("a");
  model.qk_rope_head_dim = model.v_head_dim = item.at("b");
  model.num_attention_heads =
      static_cast<int64_t>(item.at("weight").size()) / (model.qk_nope_head_dim + model.v_head_dim);
  return item.at("name").get<std::string>().starts_with("kv") ? ParamRole::kMlaKvB
                                                              : ParamRole::kMlaQB;
}

// Three updates of the matrix alone, its rows cut over `ranks`.
void expect_case(const json& item, int64_t ranks, at::ScalarType dtype, double tolerance) {
  SCOPED_TRACE(item.at("name").get<std::string>() + " on " + std::to_string(ranks));
  const at::Tensor start = matrix_of(item.at("weight"));
  run_ranks(static_cast<int>(ranks), [&](const ProcessGroup& world) {
    ParallelDims dims;
    dims.world = dims.dp_shard = ranks;
    const DeviceMesh mesh(dims, world);
    Config config = config_of(item);
    ParamTable table;
    ShardedParam param;
    param.name = "model.layers.0.matrix.weight";
    param.shape = start.sizes().vec();
    param.role = role_of(item, config.model);
    param.cuts = {{Axis::kFsdp, 0, 1}};
    ShardedParam& row = table.add(std::move(param), mesh);
    const auto own = [&](const at::Tensor& whole) {
      return whole.narrow(0, row.box.offsets[0], row.box.sizes[0]).to(dtype).clone();
    };
    row.value = own(start);
    Muon optimizer(config, table, mesh);
    at::Tensor before = start;
    for (size_t step = 0; step < item.at("gradients").size(); ++step) {
      row.grad = own(matrix_of(item.at("gradients")[step]));
      optimizer.step(item.at("learning_rate"), 1.0);
      const at::Tensor after = matrix_of(item.at("expected_weights")[step]);
      const double change = (after - start).norm().item<double>();
      const at::Tensor error = row.value.to(at::kDouble) - own(after).to(at::kDouble);
      EXPECT_LE(error.norm().item<double>(), tolerance * change) << "update " << step + 1;
    }
    const at::Tensor momentum = own(matrix_of(item.at("expected_momentum"))).to(at::kDouble);
    const at::Tensor held = optimizer.state(0).front().value.to(at::kDouble);
    EXPECT_LE((held - momentum).norm().item<double>(), 1e-6 * momentum.norm().item<double>());
  });
}

class MuonCases : public testing::TestWithParam<const char*> {};

TEST_P(MuonCases, AreTheReferenceInFloat64) {
  for (const json& item : read_json(source_dir() / "tests/cases/muon64" / GetParam())) {
    for (const int64_t ranks : {1, 2, 3}) expect_case(item, ranks, at::kDouble, 1e-12);
  }
}

// In bfloat16 where the processor has units for it.
TEST_P(MuonCases, AreTheReferenceInShorterTypes) {
  const bool is_short = newton_schulz_type(at::empty({1})) == at::kBFloat16;
  for (const json& item : read_json(source_dir() / "tests/cases/muon64" / GetParam())) {
    expect_case(item, 2, at::kFloat, is_short ? 3e-2 : 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Files, MuonCases, testing::Values("muon.json", "nested.json"), [](const auto& info) {
      return std::string(info.param).substr(0, std::string(info.param).find('.'));
    });

TEST(NewtonSchulz, NothingBecomesNothing) {
  const at::Tensor x = at::zeros({3, 5}, at::kDouble);
  newton_schulz(x, {{3.4445, -4.7750, 2.0315, 1}}, 1e-8);
  EXPECT_TRUE(at::equal(x, at::zeros({3, 5}, at::kDouble)));
}

// With coefficients that converge, every singular value becomes one.
TEST(NewtonSchulz, MakesOrthogonal) {
  for (const auto& [rows, columns] : {std::pair{4, 9}, std::pair{9, 4}}) {
    const at::Tensor x =
        at::sin(at::arange(36, at::kDouble).square()).view({rows, columns}).clone();
    newton_schulz(x, std::vector<NewtonSchulzTriple>(40, {1.875, -1.25, 0.375, 1}), 1e-8);
    const at::Tensor gram = rows < columns ? at::mm(x, x.t()) : at::mm(x.t(), x);
    EXPECT_LT((gram - at::eye(4, at::kDouble)).abs().max().item<double>(), 1e-12);
  }
}

}  // namespace
}  // namespace tessera::test
