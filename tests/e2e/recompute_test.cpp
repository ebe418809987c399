// What is computed again trains the same model as what is kept: whole layers and single modules,
// with every other dimension; what is counted is counted once.

#include <gtest/gtest.h>

#include <map>

#include "tests/e2e/layout.h"

namespace tessera::test {
namespace {

using Sets = std::vector<std::string>;

Sets full(const std::string& layers, Sets more = {}) {
  more.push_back("recompute={mode: full, full_recompute_layer: ['" + layers + "']}");
  return more;
}
Sets select(const std::string& modules, Sets more = {}) {
  more.push_back("recompute={mode: select, select_module: {" + modules + "}}");
  return more;
}
Sets pp(int64_t stages, int64_t chunks, Sets more) {
  more.push_back("parallelism.pipeline_parallel=" + std::to_string(stages));
  more.push_back("parallelism.pipeline_parallel_interleave_num=" + std::to_string(chunks));
  more.push_back("parallelism.pipeline_parallel_layers_per_stage=auto");
  return more;
}
const Sets kCp2 = {"parallelism.context_parallel=2", "model.use_attn_mask_compression=true"};
Sets cp2(Sets more) {
  more.insert(more.end(), kCp2.begin(), kCp2.end());
  return more;
}

// Layers as a whole, but for what `modules` names.
Sets full_but(const std::string& modules, Sets more = {}) {
  more.push_back("recompute={mode: full, full_recompute_layer: ['0-1'], exclude_op: {" + modules +
                 "}}");
  return more;
}

constexpr int64_t kSteps = 3;

Config load(const std::string& name, Sets set, int64_t ranks) {
  set.push_back("training.steps=3");
  return load_case(name, set, ranks);
}

const RunRecord& kept(const std::string& name) {
  static std::map<std::string, std::unique_ptr<RunRecord>> records;
  auto& record = records[name];
  if (!record) record = train(load(name, {}, 1), 1, kSteps);
  return *record;
}

using Param = std::tuple<std::string, Layout>;
class Recompute : public testing::TestWithParam<Param> {};

TEST_P(Recompute, EqualsKept) {
  const auto& [name, layout] = GetParam();
  const auto run = train(load(name, layout.set, layout.ranks), layout.ranks, kSteps);
  expect_same_training(*run, kept(name), 1e-10);
}

INSTANTIATE_TEST_SUITE_P(
    Dense, Recompute,
    testing::Combine(
        testing::Values("qwen3_tied64"),
        testing::Values(
            Layout{"full", 1, full("0-3")},
            Layout{"full_shard2_always", 2, full("1-2", {local_batch(2), policy("always")})},
            Layout{"full_tp2_shard2_never", 4,
                   full("0-3", {local_batch(2), tp(2), policy("never")})},
            Layout{
                "full_pp2v2_overlap", 2,
                full("0-2",
                     pp(2, 2, {local_batch(2), "parallelism.pipeline_parallel_overlap_b_f=true"}))},
            Layout{"every_module", 1, select("'(self_attention|mlp)\\..*|.*norm': ['0-3']")},
            Layout{"parents", 1, select("self_attention: ['0-1'], 'mlp.*': ['1-3']")},
            Layout{"hugging_face_names_shard2_always", 2,
                   select("self_attn.k_proj: ['0-3'], mlp.gate_proj: ['0'], self_attn: ['2']",
                          {local_batch(2), policy("always")})},
            Layout{"every_module_tp2", 2,
                   select("'(self_attention|mlp)\\..*|.*norm': ['0-3']", {tp(2)})},
            Layout{"core_cp2", 2,
                   select("self_attention.core_attention: ['0-3'], mlp: ['0-3']",
                          cp2({local_batch(4)}))},
            Layout{"full_cp2", 2, full("0-3", cp2({local_batch(4)}))},
            Layout{"select_and_full_pp2", 2,
                   pp(2, 1,
                      {local_batch(2),
                       "recompute={mode: select, full_recompute_layer: ['1'], "
                       "select_module: {'mlp.*': ['0-3']}}"})})),
    case_and_layout_name);

INSTANTIATE_TEST_SUITE_P(
    Experts, Recompute,
    testing::Combine(
        testing::Values("qwen3_moe_aux64", "deepseek_v3_64"),
        testing::Values(Layout{"full", 1, full("0-1")}, Layout{"mlp", 1, select("mlp: ['0-1']")},
                        Layout{"every_module", 1, select("'(self_attention|mlp)\\..*': ['0-1']")},
                        Layout{"full_ep2", 2,
                               full("0-1",
                                    {"parallelism.expert_parallel=2", shard(-1), local_batch(4)})},
                        Layout{"mlp_tp2_ep2", 2,
                               select("mlp: ['0-1'], self_attention: ['0']",
                                      {"parallelism.expert_parallel=2", tp(2), local_batch(8)})})),
    case_and_layout_name);

// What is kept inside of what runs again.
INSTANTIATE_TEST_SUITE_P(
    DenseButSome, Recompute,
    testing::Combine(
        testing::Values("qwen3_tied64", "llama_sgd64"),
        testing::Values(
            Layout{"core", 1, full_but("self_attention.core_attention: ['0-1']")},
            Layout{"every_module", 1, full_but("'(self_attention|mlp)\\..*|.*norm': ['0-1']")},
            Layout{"parents_shard2_always", 2,
                   full_but("self_attention: ['0'], mlp: ['1']",
                            {local_batch(2), policy("always"), shard(2)})},
            Layout{"products_tp2", 2, full_but("'.*linear_(qkv|proj|fc1|fc2)': ['0-1']", {tp(2)})},
            Layout{"core_cp2", 2,
                   full_but("self_attention.core_attention: ['0-1']", cp2({local_batch(4)}))},
            Layout{
                "core_pp2_overlap", 2,
                full_but("self_attention.core_attention: ['0-1'], mlp.linear_fc1: ['0']",
                         pp(2, 2,
                            {local_batch(2), "parallelism.pipeline_parallel_overlap_b_f=true"}))},
            Layout{"inside_a_module",
                   1,
                   {"recompute={mode: select, select_module: {self_attention: ['0-3']}, "
                    "exclude_op: {self_attention.core_attention: ['0-3']}}"}})),
    case_and_layout_name);

INSTANTIATE_TEST_SUITE_P(
    ExpertsButSome, Recompute,
    testing::Combine(
        testing::Values("qwen3_moe_aux64", "deepseek_v3_64"),
        testing::Values(Layout{"router", 1, full_but("mlp.router: ['0-1']")},
                        Layout{"every_module", 1, full_but("'(self_attention|mlp)\\..*': ['0-1']")},
                        Layout{"mlp_ep2", 2,
                               full_but("mlp: ['0-1']", {"parallelism.expert_parallel=2", shard(-1),
                                                         local_batch(4)})})),
    case_and_layout_name);

// The layer for multi-token prediction has the number after the last; its loss is logged once.
TEST(RecomputeMtp, EqualsKept) {
  const Sets mtp = {"checkpoint.load_path=''", "model.num_nextn_predict_layers=1",
                    "model.mtp_loss_factor=0.3"};
  const auto reference = train(load("deepseek_v3_64", mtp, 1), 1, kSteps);
  ASSERT_TRUE(reference->steps[0].mtp_loss.has_value());
  for (const Sets& set : {full("0-4", mtp), select("'(self_attention|mlp)': ['4']", mtp)}) {
    const auto run = train(load("deepseek_v3_64", set, 1), 1, kSteps);
    expect_same_training(*run, *reference, 1e-10);
  }
}

}  // namespace
}  // namespace tessera::test
