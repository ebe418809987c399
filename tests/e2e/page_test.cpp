// The parallelism blocks of MindFormers' page on distributed training, word for word, at their
// world sizes: each trains the same model as one rank.

#include <gtest/gtest.h>

#include "tessera/config/load.h"
#include "tessera/rules/validate.h"
#include "tests/e2e/layout.h"
#include "tests/support/case_path.h"

namespace tessera::test {
namespace {

// What surrounds a block: a small model on the tokens of a reference run.
const std::string kDense = "model_type: llama, architectures: LlamaForCausalLM";
const std::string kExperts =
    "model_type: qwen3_moe, architectures: Qwen3MoeForCausalLM, num_experts: 8,\n"
    "        num_experts_per_tok: 2, moe_intermediate_size: 16, norm_topk_prob: true,\n"
    "        moe_router_load_balancing_type: seq_aux_loss, moe_aux_loss_coeff: 0.01,\n"
    "        moe_router_dtype: float64";

std::string file_with(const std::string& block, const std::string& family, int64_t layers,
                      int64_t local_batch) {
  return "training: {steps: 3, local_batch_size: " + std::to_string(local_batch) +
         ", global_batch_size: 16, max_norm: 1.0}\n"
         "optimizer: {type: SGD}\n"
         "lr_scheduler: {type: ConstantWarmUpLR, learning_rate: 0.3, warmup_steps: 0}\n"
         "checkpoint: {enable_save: false}\n"
         "train_dataset:\n"
         "  dataloader:\n"
         "    type: BlendedMegatronDatasetDataLoader\n"
         "    datasets_type: GPTDataset\n"
         "    sizes: [48, 0, 0]\n"
         "    config: {seq_length: 64, data_path: [data/train], split: '1,0,0', eod: 2, pad: 1,\n"
         "             create_attention_mask: false, create_compressed_eod_mask: false}\n"
         "model: {" +
         family +
         ", vocab_size: 256,\n"
         "        hidden_size: 32, intermediate_size: 64, num_attention_heads: 8,\n"
         "        num_key_value_heads: 4, head_dim: 8, seq_length: 64, initializer_range: 0.1,\n"
         "        use_attn_mask_compression: true, params_dtype: float64,\n"
         "        embedding_params_dtype: float64, compute_dtype: float64,\n"
         "        layernorm_compute_dtype: float64, rotary_dtype: float64,\n"
         "        num_hidden_layers: " +
         std::to_string(layers) + "}\n" + block;
}

Config read(const std::string& text, int64_t ranks) {
  const ConfigResult file =
      load_config_text(text, "page.yaml", case_path("llama_sgd64").string(), {});
  std::vector<Issue> issues = file.issues;
  if (!has_errors(issues)) issues = validate(file.config, file.provenance, ranks);
  if (has_errors(issues)) throw std::runtime_error(format_issues(issues));
  return file.config;
}

struct Scene {
  std::string name;
  int64_t ranks;
  int64_t layers;
  int64_t local_batch;
  std::string block;
  std::string family = kDense;
};

class Page : public testing::TestWithParam<Scene> {};

TEST_P(Page, TrainsAsOneRank) {
  const Scene& scene = GetParam();
  const auto file = [&](const std::string& block) {
    return file_with(block, scene.family, scene.layers, scene.local_batch);
  };
  const auto reference = train(read(file(""), 1), 1, 3);
  const auto run = train(read(file(scene.block), scene.ranks), scene.ranks, 3);
  expect_same_training(*run, *reference, 1e-10);
}

INSTANTIATE_TEST_SUITE_P(Scenes, Page,
                         testing::Values(Scene{"overview", 8, 2, 1, R"(parallelism:
  # —— 数据并行 / FSDP / HSDP ——
  data_parallel_shard: -1                 # 用户唯一需要配的 DP 字段；-1=剩余卡全部做分片(纯 FSDP)
  reshard_after_forward_policy: "default" # 前向后是否重新分片参数：always / never / default
  cpu_offload: False                      # 将分片后的参数/梯度卸载到 CPU
  disable_gradient_division: True         # 关闭 FSDP 自动梯度均分(按 sum 聚合)

  # —— 张量并行 TP ——
  tensor_parallel: 1

  # —— 上下文并行 CP ——
  context_parallel: 1
  context_parallel_method: "colossal"     # colossal / ulysses / hybrid
  context_parallel_async: False
  ulysses_degree_in_cp: null              # ulysses / hybrid 时按规则取值
  context_parallel_mask_type: "causal"

  # —— 流水线并行 PP ——
  pipeline_parallel: 1
  pipeline_parallel_interleave_num: 1     # 每个 stage 的交织模型块数
  pipeline_parallel_layers_per_stage: null   # pp>1 时必填：auto（均分）或各 stage 层区间列表，见 4.4
  pipeline_parallel_overlap_p2p: False
  pipeline_parallel_overlap_b_f: False

  # —— 专家并行 EP（MoE）——
  expert_parallel: 1                      # 须整除 dp_shard*cp*tp（专家分片网格 efsdp 由此计算得出）
  moe_token_dispatcher_type: "alltoall"   # alltoall / alltoall_deredundancy
  npu_nums_per_device: 8

  # —— 序列并行 SP ——
  # SP 随 TP 自动开启，当前不支持单独关闭，无需在此配置（见第六节）
)"},
                                         Scene{"fsdp8", 8, 2, 1, R"(parallelism:
  data_parallel_shard: -1          # 此时框架自动推导为 8
  reshard_after_forward_policy: "default"
  cpu_offload: False
  disable_gradient_division: True
  tensor_parallel: 1
  context_parallel: 1
  pipeline_parallel: 1
  expert_parallel: 1
)"},
                                         Scene{"hsdp16", 16, 2, 1, R"(parallelism:
  data_parallel_shard: 8           # 节点内 8 卡分片；副本度 2 由框架推导
  reshard_after_forward_policy: "default"
  cpu_offload: False
  disable_gradient_division: True
  tensor_parallel: 1
  context_parallel: 1
  pipeline_parallel: 1
)"},
                                         Scene{"tensor", 8, 2, 2, R"(parallelism:
  data_parallel_shard: -1          # 此时框架自动推导为 4
  tensor_parallel: 2
  context_parallel: 1
  pipeline_parallel: 1
  expert_parallel: 1
  reshard_after_forward_policy: "default"
  disable_gradient_division: True
)"},
                                         Scene{"colossal", 8, 2, 2, R"(parallelism:
  data_parallel_shard: -1          # 此时框架自动推导为 4
  tensor_parallel: 1
  context_parallel: 2
  context_parallel_method: "colossal"
  context_parallel_mask_type: "causal"
  pipeline_parallel: 1
)"},
                                         Scene{"ulysses", 8, 2, 2, R"(parallelism:
  data_parallel_shard: -1          # 此时框架自动推导为 2
  context_parallel: 4
  context_parallel_method: "ulysses"
  ulysses_degree_in_cp: 4          # 必须等于 context_parallel
  context_parallel_async: False    # 若设 True，需保证 num_attention_heads % 4 == 0
  tensor_parallel: 1
  pipeline_parallel: 1
)"},
                                         Scene{"hybrid", 8, 2, 4, R"(parallelism:
  data_parallel_shard: -1          # 此时框架自动推导为 2
  context_parallel: 4
  context_parallel_method: "hybrid"
  ulysses_degree_in_cp: 2          # 1 < 2 < 4 且 4 % 2 == 0
  context_parallel_mask_type: "causal"
  tensor_parallel: 1
  pipeline_parallel: 1
)"},
                                         Scene{"pipeline_auto", 8, 8, 4, R"(parallelism:
  data_parallel_shard: -1
  tensor_parallel: 4
  pipeline_parallel: 2
  pipeline_parallel_interleave_num: 2     # 虚拟 stage 总数 = 2 * 2 = 4
  pipeline_parallel_layers_per_stage: auto
  pipeline_parallel_overlap_p2p: True
)"},
                                         Scene{"pipeline_list", 8, 10, 2, R"(parallelism:
  data_parallel_shard: -1
  tensor_parallel: 4
  pipeline_parallel: 2
  pipeline_parallel_interleave_num: 2
  pipeline_parallel_layers_per_stage:
    - "0-1, 4-8"    # 物理 stage 0：虚拟 stage 0 放层 0-1，虚拟 stage 2 放层 4-8
    - "2-3, 9"      # 物理 stage 1：虚拟 stage 1 放层 2-3，虚拟 stage 3 放层 9
  pipeline_parallel_overlap_p2p: True
)"},
                                         Scene{"experts_a", 8, 2, 2, R"(parallelism:
  data_parallel_shard: -1          # 此时框架自动推导为 2
  tensor_parallel: 4
  expert_parallel: 2               # 须整除 dp_shard*cp*tp(=8)
  moe_token_dispatcher_type: "alltoall"
  context_parallel: 1
  pipeline_parallel: 1
)",
                                               kExperts},
                                         Scene{"experts_b", 16, 2, 1, R"(parallelism:
  data_parallel_shard: -1          # 此时框架自动推导为 8
  tensor_parallel: 2
  expert_parallel: 8               # 须整除 dp_shard*cp*tp(=16)；并 >= npu_nums_per_device
  moe_token_dispatcher_type: "alltoall_deredundancy"
  npu_nums_per_device: 8           # 要求 expert_parallel >= 此值
  context_parallel: 1
  pipeline_parallel: 1
)",
                                               kExperts}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tessera::test
