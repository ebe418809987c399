// Static-graph files of the reference's form become files of this program's: degrees, batch,
// schedule and sizes against a table written by hand.

#include "tessera/config/static_graph/convert.h"

#include <fstream>

#include "tessera/base/error.h"
#include "tests/config/config_testing.h"
#include "tests/support/temp_dir.h"

namespace tessera {
namespace {

using namespace testing_config;

// What all files of that form have, around the parts in which they differ.
std::string file_with(const std::string& head, const std::string& data, const std::string& parallel,
                      const std::string& model, const std::string& callbacks) {
  return head + R"(
seed: 7
output_dir: './out'
load_ckpt_format: 'safetensors'
src_strategy_path_or_dir: ''
only_save_strategy: False
resume_training: False
use_parallel: True
use_legacy: False
trainer: {type: CausalLanguageModelingTrainer, model_name: 'm'}
optimizer: {type: AdamW, betas: [0.9, 0.95], eps: 1.e-8, weight_decay: 0.1, swap: True}
train_dataset: &train_dataset
)" + data +
         R"(
  num_parallel_workers: 8
  python_multiprocessing: False
  drop_remainder: True
  numa_enable: False
  prefetch_size: 1
  seed: 1234
train_dataset_task: {type: CausalLanguageModelDataset, dataset_config: *train_dataset}
context: {mode: 0, device_target: "CPU", max_device_memory: "58GB", jit_config: {jit_level: "O0"}}
)" + parallel +
         R"(
model:
  model_config:
)" + model +
         R"(
callbacks:
  - type: MFLossMonitor
)" + callbacks +
         R"(
runner_wrapper: {type: MFTrainOneStepCell, scale_sense: 1.0, use_clip_grad: True}
profile: False
profile_start_step: 1
layer_scale: False
)";
}

const std::string kMegatron = R"(
  data_loader:
    type: BlendedMegatronDatasetDataLoader
    datasets_type: "GPTDataset"
    sizes: [800, 0, 0]
    config:
      {seed: 1234, split: "1, 0, 0", seq_length: 64, eod_mask_loss: False, reset_position_ids: False,
       create_attention_mask: False, reset_attention_mask: False, create_compressed_eod_mask: False,
       eod_pad_length: 128, eod: 1, pad: -1, data_path: ['1', "/data/text_document"]}
  input_columns: ["input_ids", "labels", "loss_mask", "position_ids"]
  construct_args_key: ["input_ids", "labels", "loss_mask", "position_ids"])";

const std::string kSaver = R"(
  - {type: CheckpointMonitor, prefix: "m", save_checkpoint_steps: 50, keep_checkpoint_max: 2,
     integrated_save: False, async_save: True, checkpoint_format: "safetensors"})";

std::string parallel(const std::string& degrees, const std::string& more,
                     const std::string& recompute = "True") {
  return "parallel_config: {" + degrees +
         ", use_seq_parallel: False, gradient_aggregation_group: 4}\n"
         "micro_batch_interleave_num: 1\n"
         "parallel: {parallel_mode: 1, enable_alltoall: True, full_batch: False, "
         "dataset_strategy: [[1, 1]], search_mode: \"sharding_propagation\", " +
         more +
         ", strategy_ckpt_config: {save_file: \"./s.ckpt\"}}\n"
         "recompute_config: {recompute: " +
         recompute + ", select_recompute: False, mp_comm_recompute: True}\n";
}

std::string head(const std::string& mode, int epochs, const std::string& more,
                 const std::string& schedule) {
  return "run_mode: '" + mode + "'\nrunner_config: {epochs: " + std::to_string(epochs) +
         ", batch_size: 1, gradient_accumulation_steps: 1, sink_mode: True, sink_size: 1}\n" +
         "lr_schedule: {" + schedule + "}\n" + more;
}

const std::string kConstant =
    "type: ConstantWarmUpLR, learning_rate: 1.e-5, lr_end: 1.e-5, warmup_steps: 3, "
    "total_steps: -1";
const std::string kCosine =
    "type: CosineWithWarmUpLR, learning_rate: 5.e-6, warmup_ratio: 0.1, total_steps: -1";

const std::string kQwen3 = R"(    model_type: "qwen3"
    architectures: ["Qwen3ForCausalLM"]
    vocab_size: 512
    hidden_size: 64
    intermediate_size: 128
    num_hidden_layers: 8
    num_attention_heads: 8
    num_key_value_heads: 4
    head_dim: 16
    hidden_act: 'swiglu'
    seq_length: 64
    untie_embeddings_and_output_weights: True
    qkv_concat: True
    input_sliced_sig: True
    use_contiguous_weight_layout_attention: False
    offset: [-1, 1]
    params_dtype: "float32"
    compute_dtype: "float32"
    softmax_compute_dtype: "float32"
    use_cache: True
    fp32_residual_connection: True)";

const std::string kQwen3Moe = R"(    model_type: "qwen3_moe"
    architectures: "Qwen3MoeForCausalLM"
    offset: 0
    vocab_size: 512
    hidden_size: 64
    intermediate_size: 128
    num_layers: 8
    num_attention_heads: 8
    num_key_value_heads: 4
    head_dim: 16
    seq_length: 64
    compute_dtype: "float32"
    num_experts: 8
    num_experts_per_tok: 2
    moe_intermediate_size: 32
    router_dense_type: "float32"
    norm_topk_prob: False
    moe_router_pre_softmax: True
    moe_token_drop_policy: probs
    router_aux_loss_coef: 0.001
    moe_aux_loss_coeff: 0.001
    moe_router_load_balancing_type: "gbs_aux_loss")";

const std::string kDeepSeek = R"(    model_type: "deepseek_v3"
    architectures: ["DeepseekV3ForCausalLM"]
    offset: [[1, 1], [0, -1]]
    pp_interleave_num: 2
    seq_length: 64
    num_hidden_layers: 9
    vocab_size: 512
    hidden_size: 64
    intermediate_size: 128
    num_attention_heads: 8
    q_lora_rank: 24
    kv_lora_rank: 16
    qk_nope_head_dim: 16
    qk_rope_head_dim: 8
    v_head_dim: 16
    compute_dtype: "float32"
    multi_latent_attention: True
    mla_qkv_concat: False
    qk_layernorm: True
    num_nextn_predict_layers: 1
    mtp_loss_factor: 0.3
    router_dense_type: "float32"
    n_routed_experts: 8
    num_experts_per_tok: 2
    n_group: 4
    topk_group: 2
    first_k_dense_replace: 1
    moe_intermediate_size: 32
    use_fused_ops_topkrouter: True
    moe_token_dispatcher_type: "alltoall"
    moe_router_load_balancing_type: 'seq_aux_loss'
    moe_aux_loss_coeff: 0.0001
    moe_token_drop_policy: False
    moe_router_enable_expert_bias: True
    moe_router_bias_update_rate: 0.0001)";

struct Expected {
  int64_t ranks, tp, pp, ep, shard, batch, steps, layers;
  std::vector<std::string> stages;  // empty: auto
  std::string recomputed;
  double max_norm, weight_decay;
  std::string schedule;
  int64_t warmup_steps;
};

Checked convert_and_check(const std::string& text, const std::string& directory,
                          std::optional<int64_t> samples, size_t changes, int64_t* ranks) {
  const Conversion made = convert_static_graph(text, "old.yaml", directory, samples);
  EXPECT_EQ(made.changes.size(), changes) << testing::PrintToString(made.changes) << made.yaml;
  *ranks = made.ranks;
  return check_text(made.yaml, made.ranks);
}

void expect_config(const Checked& checked, int64_t ranks, const Expected& e) {
  EXPECT_THAT(checked.issues, HasNoErrors());
  const Config& c = checked.result.config;
  EXPECT_EQ(ranks, e.ranks);
  EXPECT_EQ(c.parallelism.tensor_parallel, e.tp);
  EXPECT_EQ(c.parallelism.pipeline_parallel, e.pp);
  EXPECT_EQ(c.parallelism.expert_parallel, e.ep);
  EXPECT_EQ(c.parallelism.data_parallel_shard, e.shard);
  EXPECT_EQ(c.training.global_batch_size, e.batch);
  EXPECT_EQ(c.training.local_batch_size, 1);
  EXPECT_EQ(c.training.steps, e.steps);
  EXPECT_EQ(c.training.max_norm, e.max_norm);
  EXPECT_EQ(c.training.seed, 7);
  EXPECT_EQ(c.model.num_hidden_layers, e.layers);
  if (e.pp > 1) {
    ASSERT_TRUE(c.parallelism.pipeline_parallel_layers_per_stage.has_value());
    EXPECT_EQ(c.parallelism.pipeline_parallel_layers_per_stage->stages, e.stages);
    EXPECT_EQ(c.parallelism.pipeline_parallel_layers_per_stage->is_auto, e.stages.empty());
  }
  if (e.recomputed.empty()) {
    EXPECT_EQ(c.recompute.mode, "None");
  } else {
    EXPECT_EQ(c.recompute.mode, "full");
    EXPECT_EQ(c.recompute.full_recompute_layer, std::vector<std::string>{e.recomputed});
  }
  EXPECT_EQ(c.optimizer.weight_decay, e.weight_decay);
  EXPECT_EQ(c.lr_scheduler.type, e.schedule);
  EXPECT_EQ(c.lr_scheduler.warmup_steps, e.warmup_steps);
}

TEST(StaticGraph, Qwen3Pretrain) {
  const std::string text =
      file_with(head("train", 2, "load_checkpoint: ''\n", kConstant), kMegatron,
                parallel("data_parallel: &dp 1, model_parallel: 4, pipeline_stage: 2, "
                         "micro_batch_num: 4",
                         "enable_parallel_optimizer: False"),
                kQwen3, kSaver);
  int64_t ranks = 0;
  const Checked checked = convert_and_check(text, ".", {}, 0, &ranks);
  // 800 samples in updates of 4, twice. Eight layers on two stages, one fewer and one more.
  expect_config(checked, ranks,
                {8, 4, 2, 1, 1, 4, 400, 8, {"0-2", "3-7"}, "0-7", 1.0, 0.1, "ConstantWarmUpLR", 3});
  const Config& c = checked.result.config;
  EXPECT_FALSE(c.model.tie_word_embeddings);
  EXPECT_EQ(c.model.head_dim, 16);
  EXPECT_EQ(c.checkpoint.prefix, "m");
  EXPECT_EQ(c.checkpoint.save_interleaved_steps, 50);
  EXPECT_EQ(c.checkpoint.save_max, 2);
  EXPECT_TRUE(c.checkpoint.async_save);
  EXPECT_EQ(c.output_dir, "./out");
}

TEST(StaticGraph, Qwen3MoePretrain) {
  const std::string text =
      file_with(head("train", 1, "print_separate_loss: True\n", kConstant), kMegatron,
                parallel("data_parallel: 2, model_parallel: 2, pipeline_stage: 2, "
                         "micro_batch_num: 8, expert_parallel: 4",
                         "enable_parallel_optimizer: False", "False"),
                kQwen3Moe, "");
  int64_t ranks = 0;
  // The auxiliary loss over an update is not built: a change. Experts over both data ranks need
  // these to be sharded.
  const Checked checked = convert_and_check(text, ".", {}, 1, &ranks);
  expect_config(checked, ranks,
                {8, 2, 2, 4, -1, 16, 50, 8, {}, "", 1.0, 0.1, "ConstantWarmUpLR", 3});
  EXPECT_EQ(checked.result.config.model.moe_router_load_balancing_type, "aux_loss");
  EXPECT_FALSE(checked.result.config.checkpoint.enable_save);
  EXPECT_EQ(checked.result.config.model.n_routed_experts, 8);
}

TEST(StaticGraph, DeepSeekPretrain) {
  const std::string text =
      file_with(head("train", 1, "", kConstant), kMegatron,
                parallel("data_parallel: 2, model_parallel: 2, pipeline_stage: 2, "
                         "expert_parallel: 4, micro_batch_num: 4",
                         "enable_parallel_optimizer: True, pipeline_config: {pipeline_interleave: "
                         "True, pipeline_scheduler: seqpipe}, parallel_optimizer_config: "
                         "{parallel_optimizer_threshold: 64, optimizer_weight_shard_size: 256}"),
                kDeepSeek, "  - type: TopkBiasBalanceCallback" + kSaver);
  int64_t ranks = 0;
  const Checked checked = convert_and_check(text, ".", {}, 0, &ranks);
  // Nine layers over four virtual stages, two each and the offsets: 3, 3, 2, 1.
  expect_config(
      checked, ranks,
      {8, 2, 2, 4, 2, 8, 100, 9, {"0-2, 6-7", "3-5, 8"}, "0-9", 1.0, 0.1, "ConstantWarmUpLR", 3});
  EXPECT_EQ(checked.result.config.parallelism.pipeline_parallel_interleave_num, 2);
  EXPECT_EQ(checked.result.config.model.moe_router_dtype, DType::kFloat32);
}

// Finetuning: the model is that of a published folder.
TEST(StaticGraph, Qwen3Finetune) {
  const test::TempDir folder;
  std::ofstream(folder.path() / "config.json")
      << R"({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "vocab_size": 512,
             "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 8,
             "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 16,
             "max_position_embeddings": 64, "tie_word_embeddings": false})";
  const std::string model =
      "    qkv_concat: True\n    offset: 0\n    position_embedding_type: \"rope\"\n"
      "    compute_dtype: \"float32\"\n    input_sliced_sig: True";
  const std::string text = file_with(
      head("finetune", 1,
           "auto_trans_ckpt: True\npretrained_model_dir: '" + folder.path().string() + "'\n",
           kCosine),
      kMegatron,
      parallel("data_parallel: 1, model_parallel: 2, pipeline_stage: 2, micro_batch_num: 4",
               "enable_parallel_optimizer: False"),
      model, kSaver);
  int64_t ranks = 0;
  const Checked checked = convert_and_check(text, ".", {}, 0, &ranks);
  expect_config(checked, ranks,
                {4, 2, 2, 1, 1, 4, 200, 8, {}, "0-7", 1.0, 0.1, "CosineWithWarmUpLR", 20});
  EXPECT_EQ(checked.result.config.checkpoint.load_path, folder.path().string());
  EXPECT_TRUE(checked.result.config.checkpoint.no_load_optim);
}

TEST(StaticGraph, DeepSeekFinetuneOnRowsOfText) {
  const std::string data = R"(
  data_loader:
    type: HFDataLoader
    load_func: 'load_dataset'
    path: "json"
    data_files: "/data/rows.json"
    split: "train"
    shuffle: False
    handler:
      - {type: take, n: 8000}
      - {type: AlpacaInstructDataHandler, seq_length: 64, padding: False,
         tokenizer: {trust_remote_code: True, padding_side: 'right',
                     pretrained_model_dir: "/models/m"}}
      - {type: PackingHandler, seq_length: 64, pack_strategy: 'pack'})";
  const std::string text = file_with(
      head("finetune", 3, "auto_trans_ckpt: True\n", kCosine), data,
      parallel("data_parallel: 1, model_parallel: 1, pipeline_stage: 1, micro_batch_num: 16",
               "enable_parallel_optimizer: False"),
      kDeepSeek, "");
  const Conversion unknown = convert_static_graph(text, "old.yaml", ".", {});
  ASSERT_EQ(unknown.changes.size(), 1) << testing::PrintToString(unknown.changes);
  EXPECT_THAT(unknown.changes[0], testing::HasSubstr("--samples"));
  const Conversion made = convert_static_graph(text, "old.yaml", ".", 500);
  EXPECT_TRUE(made.changes.empty()) << testing::PrintToString(made.changes);
  const Config config = load_config_text(made.yaml, "new.yaml", ".", {}).config;
  EXPECT_EQ(config.training.steps, 1500) << "without stages micro-batches are not counted";
  EXPECT_EQ(config.training.global_batch_size, 1);
  EXPECT_EQ(config.train_dataset.dataloader.type, "HFDataLoader");
  EXPECT_EQ(config.lr_scheduler.warmup_steps, 150);
  EXPECT_THAT(made.yaml, testing::HasSubstr("create_compressed_eod_mask: false"));
  EXPECT_EQ(config.train_dataset.dataloader.tokenizer, "/models/m");
  EXPECT_EQ(config.train_dataset.dataloader.handler.size(), 3);
  EXPECT_EQ(config.train_dataset.dataloader.data_files,
            std::vector<std::string>{"/data/rows.json"});
}

TEST(StaticGraph, LinesThatAreLeftAreComments) {
  const std::string text =
      file_with(head("train", 1, "auto_trans_ckpt: False\nsurprise: 3\n", kConstant), kMegatron,
                parallel("data_parallel: 1, model_parallel: 1, pipeline_stage: 1, "
                         "micro_batch_num: 1",
                         "enable_parallel_optimizer: True"),
                kQwen3Moe + "\n    hidden_sizes: 5", "");
  const Conversion made = convert_static_graph(text, "old.yaml", ".", {});
  EXPECT_THAT(made.yaml, testing::HasSubstr("# line 4: auto_trans_ckpt: False (a checkpoint"));
  EXPECT_THAT(made.yaml, testing::HasSubstr("optimizer.swap: True (memory only"));
  EXPECT_THAT(made.yaml, testing::HasSubstr("# CHANGES THE TRAINING:"));
  EXPECT_THAT(made.changes, testing::Contains(testing::HasSubstr("surprise = 3")));
  EXPECT_THAT(made.changes, testing::Contains(testing::HasSubstr("model_config.hidden_sizes")));
}

TEST(StaticGraph, WhatCannotBeCarriedOver) {
  const auto changes = [](const std::string& more, const std::string& schedule = kConstant) {
    const std::string text = file_with(
        head("train", 1, more, schedule), kMegatron,
        parallel("data_parallel: 1, model_parallel: 1", "enable_parallel_optimizer: True"), kQwen3,
        "");
    return convert_static_graph(text, "old.yaml", ".", {}).changes;
  };
  using testing::Contains;
  using testing::HasSubstr;
  EXPECT_THAT(changes(""), testing::IsEmpty());
  EXPECT_THAT(changes("",
                      "type: LinearWithWarmUpLR, learning_rate: 1.e-5, warmup_steps: 3, "
                      "total_steps: 7"),
              Contains(HasSubstr("total_steps = 7")));
  EXPECT_THAT(changes("moe_config: {expert_num: 8}\n"), Contains(HasSubstr("old models")));
}

TEST(StaticGraph, OtherFilesAreRefused) {
  EXPECT_THROW(convert_static_graph(kBase, "new.yaml", ".", {}), ConfigError);
  EXPECT_THROW(convert_static_graph("run_mode: predict\nparallel_config: {}\n", "p", ".", {}),
               ConfigError);
  EXPECT_THROW(convert_static_graph("a: [", "p", ".", {}), ConfigError);
  EXPECT_THROW(convert_static_graph("runner_config: {epochs: two}\n", "p", ".", {}), ConfigError);
}

// Given to plan or train: one sentence, not one for each key.
TEST(StaticGraph, ReadAsAConfigurationItNamesTheCommand) {
  const auto checked = check_text("seed: 1\nparallel_config: {data_parallel: 1}\n", 1);
  ASSERT_EQ(checked.issues.size(), 1) << format_issues(checked.issues);
  EXPECT_THAT(checked.issues, HasError("", "`tessera convert-config x.yaml NEW.yaml`"));
}

}  // namespace
}  // namespace tessera
