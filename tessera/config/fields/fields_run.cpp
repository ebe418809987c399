#include "tessera/config/fields/field.h"

namespace tessera {

std::vector<Field> run_fields() {
  return {
      TESSERA_FIELD(checkpoint.enable_save, kHonoured, "Write checkpoints."),
      TESSERA_FIELD(checkpoint.save_path, kHonoured,
                    "Folder of the checkpoints; empty: `<output_dir>/checkpoint`.")
          .path_of_files(),
      TESSERA_FIELD(
          checkpoint.save_max, kHonoured,
          "Checkpoints kept of this run and of those that it goes on from; older ones are removed.")
          .at_least(1),
      TESSERA_FIELD(checkpoint.save_interleaved_steps, kHonoured,
                    "Save every so many steps, and at the end.")
          .at_least(1),
      TESSERA_FIELD(checkpoint.no_save_optim, kHonoured, "Leave the optimizer's state out."),
      TESSERA_FIELD(checkpoint.async_save, kHonoured, "Write in the background."),
      TESSERA_FIELD(checkpoint.prefix, kHonoured, "First part of file names; null: none."),
      TESSERA_FIELD(
          checkpoint.remove_redundancy, kHonoured,
          "Every unique part is written once; false: the copies of replicas too, in files of their "
          "own that no load needs."),
      TESSERA_FIELD(checkpoint.load_path, kHonoured,
                    "A checkpoint to go on from, or a Hugging Face folder to start from.")
          .path_of_files(),
      TESSERA_FIELD(checkpoint.resume, kHonoured,
                    "auto: goes on from the newest complete checkpoint in the run's own folder; "
                    "while there is none, starts as load_path says.")
          .one_of("never, auto"),
      TESSERA_FIELD(checkpoint.load_balanced, kHonoured,
                    "Each unique shard is read by one rank and sent to the others."),
      TESSERA_FIELD(checkpoint.no_load_optim, kHonoured, "Read weights only and start at step 0."),
      TESSERA_FIELD(
          checkpoint.base_load_path, kHonoured,
          "With lora_config: the model that the adapters at load_path belong to, a Hugging "
          "Face folder or a checkpoint.")
          .path_of_files(),
      TESSERA_FIELD(
          checkpoint.save_trainable_only, kHonoured,
          "With lora_config: checkpoints hold the adapters alone; they go on with the same "
          "base_load_path."),
      TESSERA_UNUSED_FIELD("checkpoint.load_worker_number", int64_t, "Reading is not threaded."),
      TESSERA_UNUSED_FIELD("checkpoint.save_global_layout_cache", bool,
                           "The layout is known, not collected."),
      TESSERA_FIELD(checkpoint.reshard_worker_num, kFixed, "Reading is not threaded.").at_least(1),

      TESSERA_FIELD(training.steps, kHonoured, "Optimizer updates.").at_least(1),
      TESSERA_FIELD(training.local_batch_size, kHonoured,
                    "Sequences of a micro-batch on one data-parallel rank.")
          .between(1, 1 << 24),
      TESSERA_FIELD(training.global_batch_size, kHonoured,
                    "Sequences of an update, over all data-parallel ranks. Rounded down to a "
                    "multiple of data parallel x local_batch_size.")
          .between(1, 1 << 30),
      TESSERA_FIELD(training.max_norm, kHonoured,
                    "Gradients are scaled down to this global norm; 0 or less: never."),
      TESSERA_FIELD(training.seed, kHonoured, "Seed of initial weights and dropout."),
      TESSERA_FIELD(training.deterministic, kFixed,
                    "Runs repeat bitwise anyway; on CUDA but for the backward of "
                    "libtorch's attention kernel."),
      TESSERA_FIELD(training.timeout_seconds, kHonoured,
                    "A collective that waits longer than this fails.")
          .above(0),
      TESSERA_FIELD(training.rampup_batch_size, kHonoured,
                    "Growth of the global batch, [first, increment, samples]: over so many samples "
                    "it grows from `first` in equal parts to global_batch_size."),
      TESSERA_FIELD(training.use_skip_step_on_nan, kHonoured,
                    "A step whose loss or norm is not finite updates nothing, and the run goes on; "
                    "false: it ends with exit code 5."),
      TESSERA_FIELD(training.max_consecutive_skipped_steps, kHonoured,
                    "So many skipped steps in a row end the run; 0: no limit.")
          .at_least(0),
      TESSERA_FIELD(training.eval_interval, kHonoured,
                    "Updates between two evaluations on eval_dataset, and one after the last; 0: "
                    "none.")
          .at_least(0),
      TESSERA_FIELD(training.eval_iters, kHonoured,
                    "Global batches of an evaluation of each set; 0: the whole set.")
          .at_least(0),

      TESSERA_FIELD(elastic.layouts, kHonoured,
                    "Layouts of a run with fewer ranks, in order of preference, where the file's "
                    "own does not go: a list of dicts of tensor_parallel, context_parallel, "
                    "pipeline_parallel, pipeline_parallel_interleave_num, expert_parallel and "
                    "data_parallel_shard; a key that is left out stays. With it (`[{}]`: none but "
                    "the file's own) an update has exactly global_batch_size samples on every "
                    "layout, and the last micro-batches may be padding."),
      TESSERA_FIELD(elastic.spike.factor, kHonoured,
                    "A step whose gradient norm exceeds so many times the median of the last "
                    "`window` norms updates nothing; 0: none does.")
          .at_least(0),
      TESSERA_FIELD(elastic.spike.window, kHonoured,
                    "Steps that counted; before there are so many no norm is judged.")
          .between(1, 1 << 20),
      TESSERA_FIELD(elastic.spike.action, kHonoured,
                    "skip: the run goes on with the next step. rollback: it goes back to its last "
                    "whole checkpoint and leaves the samples of that step out; while there is "
                    "none, it skips.")
          .one_of("skip, rollback"),
  };
}

}  // namespace tessera
