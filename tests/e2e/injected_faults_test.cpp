// Faults injected into a layout: `tessera parity` names the place where each takes hold as the
// first that differs. Without the fault the layouts agree (the tests of each dimension).

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/train/parity/parity.h"
#include "tests/e2e/layout.h"

namespace tessera::test {
namespace {

struct Fault {
  std::string name;
  std::string plant;
  std::string file;
  Layout layout;
  std::string first;  // how the first finding begins
  std::string axis;   // in it
};
std::ostream& operator<<(std::ostream& out, const Fault& fault) { return out << fault.name; }

ParityReport with_fault(const std::string& plant, const std::string& file, const Layout& layout) {
  ParityOptions options;
  options.ranks = layout.ranks;
  options.steps = 1;
  options.dtype = DType::kFloat64;
  options.faults = parse_fault(plant);
  return run_parity(load_case(file, layout.set, layout.ranks), options);
}

class InjectedFault : public testing::TestWithParam<Fault> {};

TEST_P(InjectedFault, IsNamedFirst) {
  const Fault& fault = GetParam();
  const ParityReport report = with_fault(fault.plant, fault.file, fault.layout);
  ASSERT_FALSE(report.passed());
  const ParityFinding& first = report.findings.front();
  EXPECT_TRUE(first.what.starts_with(fault.first)) << parity_text(report);
  EXPECT_NE(first.axis.find(fault.axis), std::string::npos) << parity_text(report);
  EXPECT_NE(parity_text(report).find("the first: " + fault.first), std::string::npos);
}

const Layout kTp2 = {"tp2", 2, {tp(2), local_batch(2), "parallelism.enable_loss_parallel=true"}};

Layout pipeline(int64_t chunks) {
  return {"pp2",
          2,
          {local_batch(2), "parallelism.pipeline_parallel=2",
           "parallelism.pipeline_parallel_interleave_num=" + std::to_string(chunks),
           "parallelism.pipeline_parallel_layers_per_stage=auto"}};
}

Layout ring(int64_t degree) {
  return {"ring",
          degree,
          {local_batch(4), "model.use_attn_mask_compression=true",
           "parallelism.context_parallel=" + std::to_string(degree),
           "parallelism.context_parallel_exchange=ring"}};
}

const Layout kEp2 = {"ep2", 4, {shard(-1), local_batch(2), "parallelism.expert_parallel=2"}};

INSTANTIATE_TEST_SUITE_P(
    TensorParallel, InjectedFault,
    testing::Values(Fault{"a_norm_not_summed",
                          "skip_partial:tp:model.layers.2.post_attention_layernorm.weight",
                          "llama_sgd64", kTp2,
                          "gradient of model.layers.2.post_attention_layernorm.weight", "tp"},
                    Fault{"loss_over_the_local_vocabulary", "local_vocabulary", "llama_sgd64", kTp2,
                          "loss of step 1", ""},
                    Fault{"slice_for_a_gather", "slice_gradient:layer 2", "llama_sgd64", kTp2,
                          "gradient of model.layers.2.input_layernorm.weight", "tp"}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Pipeline, InjectedFault,
    testing::Values(Fault{"micro_batches_swapped", "swap_micro_batches", "llama_sgd64", pipeline(1),
                          "activations in front of layer 2", ""},
                    Fault{"micro_batches_swapped_between_chunks", "swap_micro_batches",
                          "llama_sgd64", pipeline(2), "activations in front of layer 1", ""},
                    Fault{"a_micro_batch_dropped", "drop_micro_batch:1", "llama_sgd64", pipeline(1),
                          "loss of step 1", ""},
                    Fault{"tied_gradient_not_summed", "skip_partial:embedding", "qwen3_tied64",
                          pipeline(1), "gradient of model.embed_tokens.weight", ""}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    ContextParallel, InjectedFault,
    testing::Values(Fault{"lse_of_a_block_not_merged", "unmerged_lse:layer 1", "llama_sgd64",
                          ring(4), "gradient of model.layers.1.self_attn.v_proj.weight", "fsdp"},
                    Fault{"dk_of_a_hop_lost", "drop_key_gradient:layer 1", "llama_sgd64", ring(4),
                          "gradient of model.layers.1.self_attn.k_proj.weight", "fsdp"},
                    Fault{"positions_not_split", "contiguous_positions", "llama_sgd64", ring(2),
                          "activations after the attention of layer 0", ""}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    ExpertParallel, InjectedFault,
    testing::Values(Fault{"forward_splits_on_the_way_back", "forward_splits:layer 1",
                          "qwen3_moe_aux64", kEp2, "activations in front of layer 2", ""},
                    Fault{"an_expert_not_reduced", "skip_reduction:layer 3 experts",
                          "qwen3_moe_aux64", kEp2, "gradient of model.layers.3.mlp.experts.",
                          "efsdp"},
                    Fault{"weights_applied_twice", "double_weights:layer 1", "qwen3_moe_aux64",
                          kEp2, "activations in front of layer 2", ""}),
    [](const auto& info) { return info.param.name; });

// Nothing else is blamed: of the gradients only the one that was spoiled differs.
TEST(InjectedFaults, ANormThatIsNotSummedSpoilsNothingElse) {
  const std::string name = "model.layers.1.input_layernorm.weight";
  const ParityReport report = with_fault("skip_partial:tp:" + name, "llama_sgd64", kTp2);
  for (const ParityFinding& finding : report.findings) {
    if (!finding.what.starts_with("gradient of")) continue;
    EXPECT_EQ(finding.what, "gradient of " + name + " (its copies differ)");
  }
}

TEST(InjectedFaults, ALayoutWithoutTheirPlaceIsRefused) {
  const Layout one{"one", 1, {}};
  for (const char* plant :
       {"skip_partial:tp", "slice_gradient:layer 2", "local_vocabulary", "swap_micro_batches",
        "drop_micro_batch:5", "unmerged_lse:layer 1", "drop_key_gradient:layer 1",
        "contiguous_positions", "forward_splits:layer 1", "double_weights:layer 1",
        "scale_gradient:layer 9"}) {
    EXPECT_THROW(with_fault(plant, "llama_sgd64", one), ConfigError) << plant;
  }
}

}  // namespace
}  // namespace tessera::test
