#include "tessera/config/fields/field.h"

namespace tessera {

std::vector<Field> optimizer_fields() {
  return {
      TESSERA_FIELD(optimizer.type, kHonoured, "SGD serves proofs. Muon is not built."),
      TESSERA_FIELD(optimizer.betas, kHonoured, "AdamW: two decays of the moments, in [0, 1)."),
      TESSERA_FIELD(optimizer.eps, kHonoured, "AdamW: added to the root of the second moment.")
          .at_least(0),
      TESSERA_FIELD(optimizer.weight_decay, kHonoured,
                    "Decoupled decay, of matrices only unless rules below say otherwise.")
          .at_least(0),
      TESSERA_FIELD(optimizer.weight_decay_include, kHonoured,
                    "Parameters always decayed: equality, substring or glob of the name."),
      TESSERA_FIELD(optimizer.weight_decay_exclude, kHonoured, "Parameters never decayed."),
      TESSERA_FIELD(optimizer.momentum, kHonoured, "SGD: momentum, in [0, 1).").between(0, 1),
      TESSERA_FIELD(optimizer.amsgrad, kRefused, "AdamW variant."),
      TESSERA_FIELD(optimizer.maximize, kRefused, "Ascend instead of descend."),
      TESSERA_FIELD(optimizer.enable_cpu_offload, kRefused, "Optimizer state on the host."),
      TESSERA_UNUSED_FIELD("optimizer.use_fused", bool, "The update is always fused."),
      TESSERA_UNUSED_FIELD("optimizer.enable_fused_opt", bool, "The update is always fused."),
      TESSERA_UNUSED_FIELD("optimizer.matched_adamw_rms", double, "Muon."),
      TESSERA_UNUSED_FIELD("optimizer.nesterov", bool, "Muon."),
      TESSERA_UNUSED_FIELD("optimizer.ns_steps", int64_t, "Muon."),
      TESSERA_UNUSED_FIELD("optimizer.ns_coefficients", AnyValue, "Muon."),
      TESSERA_UNUSED_FIELD("optimizer.adamw_betas", std::vector<double>, "Muon."),
      TESSERA_UNUSED_FIELD("optimizer.adamw_eps", double, "Muon."),
      TESSERA_UNUSED_FIELD("optimizer.qk_clip_enabled", bool, "Muon."),
      TESSERA_UNUSED_FIELD("optimizer.qk_clip_threshold", double, "Muon."),
      TESSERA_UNUSED_FIELD("optimizer.comm_strategy", std::string, "Muon."),
      TESSERA_UNUSED_FIELD("optimizer.use_fused_adamw", bool, "Muon."),
      TESSERA_UNUSED_FIELD("optimizer.adamw_include", std::vector<std::string>, "Muon."),

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
