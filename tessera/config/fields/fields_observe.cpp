#include "tessera/config/fields/field.h"

namespace tessera {

std::vector<Field> observe_fields() {
  using OptionalInts = std::optional<std::vector<int64_t>>;
  return {
      TESSERA_FIELD(monitor.replica_check_interval, kHonoured,
                    "Every so many steps the copies of all weights are compared; where they differ "
                    "the run ends with code 3, and goes on from its last checkpoint where a "
                    "launcher starts it again. 0: only before a checkpoint is saved.")
          .at_least(0),
      TESSERA_UNUSED_FIELD("monitor.health_checkpoint.embedding_local_norm_threshold", double,
                           "Not read; training.use_skip_step_on_nan skips steps."),
      TESSERA_UNUSED_FIELD("monitor.health_checkpoint.global_norm_skip_threshold", double,
                           "As above."),
      TESSERA_UNUSED_FIELD("monitor.health_checkpoint.global_norm_skip_time", double, "As above."),
      TESSERA_FIELD_AS(monitor.train_state.local_norm, NormSelector, kHonoured,
                       "Weights whose gradients' norms every rank tells of every micro-batch, "
                       "before they are reduced: true, or parts of their names."),
      TESSERA_FIELD(monitor.train_state.local_loss, kHonoured,
                    "Every rank tells its loss of every micro-batch, divided by their number."),
      TESSERA_FIELD_AS(monitor.train_state.device_norm, NormSelector, kHonoured,
                       "As local_norm, of the last micro-batch of a step."),
      TESSERA_FIELD(monitor.train_state.device_loss, kHonoured,
                    "Every rank tells the loss of the step."),
      TESSERA_FIELD(monitor.tensorboard.output_dir, kHonoured,
                    "Folder of event files for TensorBoard, written by rank 0; empty: none.")
          .path_of_files(),
      TESSERA_FIELD(monitor.tensorboard.log_interval, kHonoured,
                    "Steps from one point of a curve to the next. Not positive: 1, and a warning."),
      TESSERA_FIELD(monitor.tensorboard.queue_size, kHonoured,
                    "Steps that may wait for the thread that writes. Not positive: 1000, and a "
                    "warning."),
      TESSERA_FIELD(monitor.moe_monitor.save_tokens_per_expert_interval, kHonoured,
                    "Steps from one histogram of tokens per expert to the next in TensorBoard; "
                    "metrics.jsonl has the counts of every step.")
          .at_least(1),
      TESSERA_FIELD(monitor.moe_monitor.target_layers, kHonoured,
                    "Layers whose experts TensorBoard shows; null: all that have experts."),

      TESSERA_FIELD(profiler.enable_profiling, kRefused, "See `tessera train --trace`."),
      TESSERA_UNUSED_FIELD("profiler.start_step", int64_t, "See profiler.enable_profiling.")
          .at_least(1),
      TESSERA_UNUSED_FIELD("profiler.end_step", int64_t, "As above.").at_least(1),
      TESSERA_UNUSED_FIELD("profiler.output_path", std::optional<std::string>, "As above."),
      TESSERA_UNUSED_FIELD("profiler.profiler_rank", OptionalInts, "As above."),
      TESSERA_UNUSED_FIELD("profiler.profiler_level", int64_t, "As above."),
      TESSERA_UNUSED_FIELD("profiler.mstx", bool, "As above."),
      TESSERA_UNUSED_FIELD("profiler.profile_memory", bool, "As above."),
      TESSERA_UNUSED_FIELD("profiler.profile_cpu", bool, "As above."),
      TESSERA_UNUSED_FIELD("profiler.with_stack", bool, "As above."),

      TESSERA_FIELD(callbacks, kHonoured,
                    "A list of {type: MaxLogitsMonitor, step_interval: 1, enable_logging: true}: "
                    "the largest attention logit by layer and head in metrics.jsonl, every so many "
                    "steps."),

      TESSERA_FIELD(
          model.lora.target_modules, kHonoured,
          "Low-rank adapters: a regular expression that is searched in the paths of the "
          "model's matrices, Hugging Face's (model.layers.0.self_attn.q_proj) and "
          "MindFormers' (model.decoder.layers.0.self_attention.linear_qkv). What it finds "
          "gets an adapter, all else is frozen. Needed.")
          .called("lora_config.target_modules"),
      TESSERA_FIELD(model.lora.exclude_layers, kHonoured,
                    "A regular expression that is searched in the same paths and in those of the "
                    "modules around them, before target_modules.")
          .called("lora_config.exclude_layers"),
      TESSERA_FIELD(model.lora.lora_rank, kHonoured, "Rows of A, columns of B.")
          .called("lora_config.lora_rank")
          .at_least(1),
      TESSERA_FIELD(model.lora.lora_alpha, kHonoured,
                    "The product of B and A counts lora_alpha / lora_rank times.")
          .called("lora_config.lora_alpha")
          .at_least(1),
      TESSERA_FIELD(model.lora.lora_dropout, kHonoured,
                    "Share of the inputs of A that a training step leaves out; in [0, 1).")
          .called("lora_config.lora_dropout")
          .between(0, 1),
      TESSERA_FIELD(model.lora.lora_a_std, kHonoured,
                    "Standard deviation of the initial A; 0: zeros.")
          .called("lora_config.lora_a_std")
          .at_least(0),
      TESSERA_FIELD(model.lora.lora_b_std, kHonoured,
                    "Standard deviation of the initial B; 0: zeros.")
          .called("lora_config.lora_b_std")
          .at_least(0),

      TESSERA_UNUSED_FIELD("context.mode", int64_t, "There is one mode."),
      TESSERA_UNUSED_FIELD("context.max_device_memory", std::string, "Memory is not reserved."),
      TESSERA_FIELD(context.device_target, kHonoured,
                    "Ascend: a GPU if there is one, else the CPU. GPU, CUDA: refused without one.")
          .one_of("Ascend, CPU, GPU, CUDA"),

      TESSERA_FIELD(output_dir, kHonoured,
                    "Folder of metrics.jsonl and the resolved config.yaml, relative to the "
                    "working directory.")
          .path_of_files(),
  };
}

}  // namespace tessera
