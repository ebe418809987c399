#include "tessera/config/fields/field.h"

namespace tessera {

std::vector<Field> optimizer_fields() {
  return {
      TESSERA_FIELD(optimizer.type, kHonoured, "docs/optimizers.md. SGD serves proofs."),
      TESSERA_FIELD(optimizer.betas, kHonoured, "AdamW: two decays of the moments, in [0, 1)."),
      TESSERA_FIELD(optimizer.eps, kHonoured,
                    "AdamW: added to the root of the second moment. Muon: the least norm that a "
                    "matrix is divided by.")
          .at_least(0),
      TESSERA_FIELD(optimizer.weight_decay, kHonoured,
                    "Decoupled decay, of matrices only unless rules below say otherwise.")
          .at_least(0),
      TESSERA_FIELD(optimizer.weight_decay_include, kHonoured,
                    "Parameters always decayed: equality, substring or glob of the name."),
      TESSERA_FIELD(optimizer.weight_decay_exclude, kHonoured, "Parameters never decayed."),
      TESSERA_FIELD(optimizer.momentum, kHonoured,
                    "SGD and Muon, in [0, 1). Not given: 0, of Muon 0.95.")
          .between(0, 1),
      TESSERA_FIELD(optimizer.amsgrad, kHonoured,
                    "AdamW: divides by the largest second moment so far, one more tensor a "
                    "parameter."),
      TESSERA_FIELD(optimizer.maximize, kHonoured, "Ascend instead of descend."),
      TESSERA_FIELD(optimizer.moment_dtype, kHonoured,
                    "AdamW and Muon: type of the state of matrices of 4096 elements and more; all "
                    "else stays float32. float32 is float64 in a float64 model.")
          .one_of("float32, bfloat16, int8"),
      TESSERA_FIELD(optimizer.enable_cpu_offload, kHonoured,
                    "Optimizer state on the host, where it is on a CPU anyway; true is an error on "
                    "a CUDA device."),
      TESSERA_FIELD(optimizer.matched_adamw_rms, kHonoured,
                    "Muon: root mean square of an update, per unit of rate.")
          .above(0),
      TESSERA_FIELD(optimizer.nesterov, kHonoured, "Muon: looks one step of momentum ahead."),
      TESSERA_FIELD(optimizer.ns_steps, kHonoured,
                    "Muon: iterations of Newton-Schulz, where ns_coefficients has no counts.")
          .between(1, 100),
      TESSERA_FIELD(optimizer.ns_coefficients, kHonoured,
                    "Muon: a, b, c of every iteration, or [[[a, b, c], count], ...] in order."),
      TESSERA_FIELD(optimizer.adamw_betas, kHonoured,
                    "Muon: betas of what AdamW moves, in [0, 1)."),
      TESSERA_FIELD(optimizer.adamw_eps, kHonoured, "Muon: eps of what AdamW moves.").at_least(0),
      TESSERA_FIELD_AS(optimizer.adamw_include, std::optional<StringOrList>, kHonoured,
                       "Muon: matrices that AdamW moves: equality, substring or glob of the name. "
                       "null: embedding, head, routers. What is no matrix is AdamW's always."),
      TESSERA_FIELD(optimizer.qk_clip_enabled, kHonoured,
                    "Muon: scales the rows of q and k of heads whose largest logit is beyond the "
                    "threshold."),
      TESSERA_FIELD(optimizer.qk_clip_threshold, kHonoured, "Muon: largest logit that is left.")
          .above(0),
      TESSERA_FIELD(optimizer.comm_strategy, kNoEffect,
                    "Muon: every matrix is iterated by one rank, whatever is asked.")
          .one_of("allgather, allgather_deredundency"),
      TESSERA_UNUSED_FIELD("optimizer.use_fused", bool, "The update is always fused."),
      TESSERA_UNUSED_FIELD("optimizer.enable_fused_opt", bool, "The update is always fused."),
      TESSERA_UNUSED_FIELD("optimizer.use_fused_adamw", bool, "Muon: it is always fused."),
      TESSERA_UNUSED_FIELD("optimizer.phase0_batch_memory_gb", double, "Muon: memory is bounded."),
      TESSERA_UNUSED_FIELD("optimizer.ns_batch_memory_gb", double, "Muon: memory is bounded."),
      TESSERA_UNUSED_FIELD("optimizer.phase4_batch_memory_gb", double, "Muon: memory is bounded."),

      TESSERA_FIELD(lr_scheduler.type, kHonoured, "The schedule; needed.")
          .one_of("ConstantWarmUpLR, LinearWithWarmUpLR, CosineWithWarmUpLR, "
                  "CosineWithRestartsAndWarmUpLR, PolynomialWithWarmUpLR, WarmUpStableDecayLR, "
                  "ConstantWithCoolDownLR, CosineAnnealingLR, CosineAnnealingWarmRestarts"),
      TESSERA_FIELD(lr_scheduler.learning_rate, kHonoured, "Peak rate.").at_least(0),
      TESSERA_FIELD(lr_scheduler.warmup_steps, kHonoured,
                    "Linear warm-up from warmup_lr_init; this or warmup_ratio is needed but for "
                    "the cosine.")
          .at_least(0),
      TESSERA_FIELD(lr_scheduler.warmup_lr_init, kHonoured, "Rate of step 0 of a warm-up.")
          .at_least(0),
      TESSERA_FIELD(lr_scheduler.warmup_ratio, kHonoured,
                    "Warm-up as a part of training.steps; replaces warmup_steps.")
          .between(0, 1),
      TESSERA_FIELD(lr_scheduler.num_cycles, kHonoured,
                    "Cosine: half waves as 0.5 each. Default 0.5; with restarts 1.0.")
          .at_least(0),
      TESSERA_FIELD(lr_scheduler.lr_end, kHonoured,
                    "Last rate. Default 0; polynomial and stable-decay 1e-7.")
          .at_least(0),
      TESSERA_FIELD(lr_scheduler.power, kHonoured, "Polynomial: exponent.").above(0),
      TESSERA_FIELD(lr_scheduler.decay_steps, kHonoured, "Length of the decay; null: to the end.")
          .at_least(1),
      TESSERA_FIELD(lr_scheduler.decay_ratio, kHonoured,
                    "decay_steps as a part of training.steps; replaces it.")
          .between(0, 1),
      TESSERA_FIELD(lr_scheduler.decay_start_steps, kHonoured, "Stable-decay: first step of decay.")
          .at_least(0),
      TESSERA_FIELD(lr_scheduler.decay_start_ratio, kHonoured,
                    "decay_start_steps as a part of training.steps; replaces it.")
          .between(0, 1),
      TESSERA_FIELD(lr_scheduler.keep_steps, kHonoured, "Cool-down: constant before the decay.")
          .at_least(0),
      TESSERA_FIELD(lr_scheduler.final_steps, kHonoured, "Cool-down: steps at lr_end1.")
          .at_least(0),
      TESSERA_FIELD(lr_scheduler.lr_end1, kHonoured, "Cool-down: rate after the decay.")
          .at_least(0),
      TESSERA_FIELD(lr_scheduler.lr_end2, kHonoured,
                    "Cool-down: rate after final_steps; 0 or left out: lr_end1.")
          .at_least(0),
      TESSERA_FIELD(lr_scheduler.base_lr, kHonoured,
                    "CosineAnnealing*: peak rate; left out: learning_rate.")
          .at_least(0),
      TESSERA_FIELD(lr_scheduler.t_max, kHonoured, "CosineAnnealingLR: steps of a half wave.")
          .at_least(1),
      TESSERA_FIELD(lr_scheduler.eta_min, kHonoured, "CosineAnnealing*: lowest rate.").at_least(0),
      TESSERA_FIELD(lr_scheduler.t_0, kHonoured, "Warm restarts: steps of the first cycle.")
          .at_least(1),
      TESSERA_FIELD(lr_scheduler.t_mult, kHonoured, "Warm restarts: growth of a cycle.")
          .at_least(1),
      TESSERA_UNUSED_FIELD("lr_scheduler.total_steps", int64_t, "Is training.steps."),
  };
}

}  // namespace tessera
