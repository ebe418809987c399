#include "tessera/optim/clip_heads.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tessera/comm/threads/run_ranks.h"
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

// A weight of layer 1, its rows cut over `ranks`, clipped; the rank's rows of `expected`.
void expect_clipped(ParamRole role, const ModelConfig& model, const at::Tensor& before,
                    const at::Tensor& expected, const at::Tensor& largest_H, double threshold,
                    int64_t ranks) {
  run_ranks(static_cast<int>(ranks), [&](const ProcessGroup& world) {
    ParallelDims dims;
    dims.world = dims.dp_shard = ranks;
    const DeviceMesh mesh(dims, world);
    ParamTable table;
    ShardedParam param;
    param.name = "model.layers.1.self_attn.x.weight";
    param.shape = before.sizes().vec();
    param.role = role;
    param.cuts = {{Axis::kFsdp, 0, 1}};
    ShardedParam& row = table.add(std::move(param), mesh);
    row.value = before.narrow(0, row.box.offsets[0], row.box.sizes[0]).clone();
    const at::Tensor other = at::full_like(largest_H, std::numeric_limits<double>::infinity());
    clip_heads(table, model, at::stack({other, largest_H}), threshold);
    const at::Tensor part = expected.narrow(0, row.box.offsets[0], row.box.sizes[0]);
    if (part.numel() > 0) {
      EXPECT_LT((row.value - part).abs().max().item<double>(), 1e-14);
    }
  });
}

TEST(ClipHeads, LatentAttentionIsTheReference) {
  const json item = read_json(source_dir() / "tests/cases/muon64/qk_clip.json");
  ModelConfig model;
  model.num_attention_heads = model.num_key_value_heads = item.at("heads");
  model.qk_nope_head_dim = item.at("qk_nope_head_dim");
  model.qk_rope_head_dim = item.at("qk_rope_head_dim");
  model.v_head_dim = item.at("v_head_dim");
  const at::Tensor largest =
      at::tensor(item.at("largest_logit").get<std::vector<double>>(), at::kDouble);
  for (const int64_t ranks : {1, 4}) {
    expect_clipped(ParamRole::kMlaQB, model, matrix_of(item.at("q_b_proj")),
                   matrix_of(item.at("expected_q_b_proj")), largest, item.at("threshold"), ranks);
    expect_clipped(ParamRole::kMlaKvB, model, matrix_of(item.at("kv_b_proj")),
                   matrix_of(item.at("expected_kv_b_proj")), largest, item.at("threshold"), ranks);
  }
}

// With heads of its own: the product of queries and keys shrinks by f. Shared keys stay.
TEST(ClipHeads, LogitsBecomeTheThreshold) {
  ModelConfig model;
  model.head_dim = 2;
  model.num_attention_heads = 3;
  const at::Tensor largest =
      at::tensor({50.0, 400.0, -std::numeric_limits<double>::infinity()}, at::kDouble);
  const at::Tensor q = at::sin(at::arange(30, at::kDouble)).view({6, 5}).clone();
  at::Tensor factor = at::tensor({1.0, 1.0, 0.25, 0.25, 1.0, 1.0}, at::kDouble).unsqueeze(1);
  for (const int64_t ranks : {1, 3}) {
    model.num_key_value_heads = 3;
    for (const ParamRole role : {ParamRole::kAttnQ, ParamRole::kAttnK}) {
      expect_clipped(role, model, q, q * factor.sqrt(), largest, 100.0, ranks);
    }
    expect_clipped(ParamRole::kAttnV, model, q, q, largest, 100.0, ranks);
    model.num_key_value_heads = 1;
    expect_clipped(ParamRole::kAttnQ, model, q, q * factor, largest, 100.0, ranks);
    expect_clipped(ParamRole::kAttnK, model, q.narrow(0, 0, 2), q.narrow(0, 0, 2), largest, 100.0,
                   ranks);
    const at::Tensor bias = q.select(1, 0).contiguous();
    expect_clipped(ParamRole::kAttnQBias, model, bias, bias * factor.squeeze(1), largest, 100.0,
                   ranks);
  }
}

}  // namespace
}  // namespace tessera::test
