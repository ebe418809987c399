#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/config/dataset_config.h"
#include "tessera/config/model_config.h"
#include "tessera/config/optimizer_config.h"

namespace tessera {

// One struct a YAML section, one field a key, the same names. Read by load_config, checked by
// validate. docs/config.md describes every key, also those that only the reader knows.

struct CheckpointConfig {
  bool enable_save = true;
  std::string save_path;  // empty: <output_dir>/checkpoint
  int64_t save_max = 5;   // checkpoints kept
  int64_t save_interleaved_steps = 1000;
  bool no_save_optim = false;
  bool async_save = false;
  std::optional<std::string> prefix = "checkpoint";
  bool remove_redundancy = false;
  std::string load_path;         // a checkpoint or a Hugging Face folder; resolved
  std::string resume = "never";  // auto: from the run's own folder if a checkpoint is there
  bool load_balanced = false;
  bool no_load_optim = false;  // weights only, from step 0
  int64_t reshard_worker_num = 1;
  bool save_trainable_only = false;  // of a run with adapters: what is trained, without its base
  std::string base_load_path;        // the base of such a checkpoint

  bool operator==(const CheckpointConfig&) const = default;
};

struct TrainingConfig {
  int64_t steps = 1000;           // optimizer updates
  int64_t local_batch_size = 1;   // sequences of a micro-batch on one batch rank
  int64_t global_batch_size = 1;  // sequences of an update, over all batch ranks
  double max_norm = 1.0;          // <= 0: no clipping
  int64_t seed = 42;
  bool deterministic = false;
  double timeout_seconds = 600.0;  // a collective that waits longer fails
  /// [first batch, increment, samples over which it grows]: see BatchRamp.
  std::optional<std::vector<int64_t>> rampup_batch_size;
  bool use_skip_step_on_nan = false;          // a step whose norm is not finite updates nothing
  int64_t max_consecutive_skipped_steps = 0;  // this many in a row end the run; 0: no limit
  int64_t eval_interval = 0;    // updates between two evaluations on eval_dataset; 0: none
  int64_t eval_iters = 0;       // steps of an evaluation of each set; 0: the whole set once
  int64_t sample_interval = 0;  // updates between two texts written to sample_prompts; 0: none
  std::vector<std::string> sample_prompts;

  bool operator==(const TrainingConfig&) const = default;
};

/// `pipeline_parallel_layers_per_stage`: "auto", or one string of ranges a stage.
struct LayersPerStage {
  bool is_auto = false;
  std::vector<std::string> stages;  // "0-1, 4-8": one range a chunk; empty when is_auto

  bool operator==(const LayersPerStage&) const = default;
};

struct ParallelismConfig {
  int64_t data_parallel_shard = -1;  // -1: all of data parallel; resolve() keeps what was asked
  std::string reshard_after_forward_policy = "default";  // always, never, default
  bool cpu_offload = false;
  bool disable_gradient_division = true;
  std::optional<int64_t> dense_fsdp_shard_size;  // only null or dp_shard * cp is built

  int64_t tensor_parallel = 1;
  bool enable_mc2 = false;
  bool enable_loss_parallel = true;

  int64_t context_parallel = 1;
  std::string context_parallel_method = "colossal";  // colossal, ulysses, hybrid; lower case
  bool context_parallel_async = false;
  std::optional<int64_t> ulysses_degree_in_cp;
  std::string context_parallel_mask_type = "causal";
  std::string context_parallel_exchange = "auto";  // colossal: auto, ring, allgather
  std::string context_parallel_balance = "auto";   // auto, head_tail, contiguous

  int64_t pipeline_parallel = 1;
  std::optional<LayersPerStage> pipeline_parallel_layers_per_stage;
  int64_t pipeline_parallel_interleave_num = 1;  // chunks a stage
  bool pipeline_parallel_overlap_p2p = false;
  bool pipeline_parallel_overlap_b_f = false;
  std::string pipeline_parallel_schedule = "1f1b";   // reserved
  bool pipeline_parallel_enable_dxdw_split = false;  // reserved
  int64_t pipeline_parallel_microbatch_size = 1;     // reserved: derived

  int64_t expert_parallel = 1;
  std::string moe_token_dispatcher_type = "alltoall";  // alltoall, alltoall_deredundancy
  int64_t npu_nums_per_device = 8;                     // devices a node, for alltoall_deredundancy

  bool operator==(const ParallelismConfig&) const = default;
};

/// Layer specs are strings "n" or "a-b", ascending and disjoint; MTP layers follow the decoder's.
struct RecomputeConfig {
  std::string mode = "None";  // None, full, select
  std::optional<std::vector<std::string>> full_recompute_layer;
  std::optional<std::map<std::string, std::vector<std::string>>> select_module;
  /// Pattern of a module's path -> layers: kept, although what surrounds it is recomputed.
  std::optional<std::map<std::string, std::vector<std::string>>> exclude_op;

  bool operator==(const RecomputeConfig&) const = default;
};

struct RecomputeCommConfig {
  bool enable = false;
  std::optional<std::map<std::string, std::vector<std::string>>> select_module;

  bool operator==(const RecomputeCommConfig&) const = default;
};

struct SwapConfig {
  bool enable = false;  // only false is built

  bool operator==(const SwapConfig&) const = default;
};

struct TrainStateConfig {
  std::vector<std::string> local_norm;  // name substrings; {""} : all
  bool local_loss = false;
  std::vector<std::string> device_norm;  // as local_norm
  bool device_loss = false;

  bool operator==(const TrainStateConfig&) const = default;
};

struct MoeMonitorConfig {
  std::optional<int64_t> save_tokens_per_expert_interval;
  std::optional<std::vector<int64_t>> target_layers;  // none: all layers with experts

  bool operator==(const MoeMonitorConfig&) const = default;
};

/// Event files of TensorBoard.
struct TensorboardConfig {
  std::string output_dir;    // empty: none are written
  int64_t log_interval = 1;  // steps
  int64_t queue_size = 1000;

  bool operator==(const TensorboardConfig&) const = default;
};

struct MonitorConfig {
  TrainStateConfig train_state;
  MoeMonitorConfig moe_monitor;
  TensorboardConfig tensorboard;
  int64_t replica_check_interval = 0;  // steps between two comparisons of replicas; 0: none

  bool operator==(const MonitorConfig&) const = default;
};

/// A trace of the steps from `start_step` to `end_step` of a run, counted from 1.
struct ProfilerConfig {
  bool enable_profiling = false;
  int64_t start_step = 1;
  int64_t end_step = 1;
  std::optional<std::string> output_path;             // none: below output_dir
  std::optional<std::vector<int64_t>> profiler_rank;  // none: all ranks
  int64_t profiler_level = 0;                         // 1: operators too
  bool profile_memory = false;
  bool profile_cpu = true;

  bool operator==(const ProfilerConfig&) const = default;
};

struct CallbackConfig {
  std::string type;
  int64_t step_interval = 1;   // MaxLogitsMonitor
  bool enable_logging = true;  // likewise

  bool operator==(const CallbackConfig&) const = default;
};

struct ContextConfig {
  std::string device_target = "Ascend";  // Ascend: a GPU if there is one, else CPU; CPU; GPU, CUDA

  bool operator==(const ContextConfig&) const = default;
};

/// A prompt of `inference.input_data`: the instruction and, if there is one, the input below it.
struct PromptRecord {
  std::string instruction;
  std::string input;

  bool operator==(const PromptRecord&) const = default;
};

/// `run_mode: predict`. The keys from `temperature` on are ours.
struct InferenceConfig {
  int64_t max_new_tokens = 50;
  int64_t batch_size = 8;
  std::string output = "inference_result.jsonl";
  std::vector<PromptRecord> input_data;  // a text alone may be the path of a file
  double temperature = 0.0;              // 0: greedy
  int64_t top_k = 0;                     // 0: all
  double top_p = 1.0;
  double min_p = 0.0;
  double repetition_penalty = 1.0;
  int64_t seed = 42;
  std::vector<std::string> stop;  // texts that end an answer

  bool operator==(const InferenceConfig&) const = default;
};

/// What is done about a step whose gradient norm exceeds `factor` times the median of the last
/// `window` norms.
struct SpikeConfig {
  double factor = 0.0;  // 0: nothing
  int64_t window = 100;
  std::string action = "skip";  // skip, rollback

  bool operator==(const SpikeConfig&) const = default;
};

/// Runs that survive the loss of ranks.
struct ElasticConfig {
  int64_t snapshot_interval = 0;                        // steps; 0: chosen by cost
  std::string snapshot_path;                            // empty: /dev/shm, else the save_path
  std::vector<std::map<std::string, int64_t>> layouts;  // parallelism keys, in order of preference
  double join_interval = 60.0;  // seconds between two looks for nodes that want to join
  SpikeConfig spike;

  bool operator==(const ElasticConfig&) const = default;
};

struct Config {
  std::string run_mode = "train";       // train, predict
  std::string output_dir = "./output";  // relative to the working directory
  CheckpointConfig checkpoint;
  TrainingConfig training;
  ParallelismConfig parallelism;
  OptimizerConfig optimizer;
  LrSchedulerConfig lr_scheduler;
  TrainDatasetConfig train_dataset;
  std::vector<EvalDatasetConfig> eval_dataset;
  ModelConfig model;
  RecomputeConfig recompute;
  RecomputeCommConfig recompute_comm;
  SwapConfig swap;
  MonitorConfig monitor;
  ProfilerConfig profiler;
  std::vector<CallbackConfig> callbacks;
  ContextConfig context;
  InferenceConfig inference;
  ElasticConfig elastic;

  bool operator==(const Config&) const = default;
};

}  // namespace tessera
