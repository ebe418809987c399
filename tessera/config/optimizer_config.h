#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

// The sections `optimizer` and `lr_scheduler`: the rule of an update and its learning rate.

struct OptimizerKind;

/// Coefficients a, b, c of one or more iterations of Newton-Schulz.
struct NewtonSchulzTriple {
  double a = 0.0;
  double b = 0.0;
  double c = 0.0;
  int64_t count = 0;  // iterations with them; 0: optimizer.ns_steps

  bool operator==(const NewtonSchulzTriple&) const = default;
};

struct OptimizerConfig {
  std::string type = "AdamW";                 // of `kind`
  std::shared_ptr<const OptimizerKind> kind;  // set by load_config: null for an unknown type
  std::vector<double> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.01;
  std::optional<std::vector<std::string>> weight_decay_include;  // equality, substring or glob
  std::optional<std::vector<std::string>> weight_decay_exclude;
  bool amsgrad = false;
  bool maximize = false;
  bool enable_cpu_offload = false;
  double momentum = 0.0;                 // none given: kind->default_momentum
  std::string moment_dtype = "float32";  // of large tensors: float32, bfloat16, int8

  // Muon
  double matched_adamw_rms = 0.2;
  bool nesterov = true;
  int64_t ns_steps = 5;
  std::vector<NewtonSchulzTriple> ns_coefficients = {{3.4445, -4.7750, 2.0315}};
  std::vector<double> adamw_betas = {0.95, 0.95};
  double adamw_eps = 1e-8;
  std::optional<std::vector<std::string>> adamw_include;  // none: embedding, head, routers
  bool qk_clip_enabled = true;
  double qk_clip_threshold = 100.0;
  std::string comm_strategy = "allgather";  // allgather, allgather_deredundency

  bool operator==(const OptimizerConfig&) const = default;
};

/// Defaults that depend on `type` and steps that a ratio gives are resolved by load_config.
struct LrSchedulerConfig {
  std::string type;  // empty: not given
  double learning_rate = 1e-5;
  int64_t warmup_steps = 0;
  double warmup_lr_init = 0.0;
  std::optional<double> warmup_ratio;  // replaces warmup_steps by int(steps * ratio)
  double num_cycles = 0.5;
  double lr_end = 0.0;
  double power = 1.0;
  std::optional<int64_t> decay_steps;  // none: until the end
  std::optional<double> decay_ratio;
  int64_t decay_start_steps = 0;  // WarmUpStableDecayLR
  std::optional<double> decay_start_ratio;
  int64_t keep_steps = 0;  // ConstantWithCoolDownLR
  int64_t final_steps = 0;
  double lr_end1 = 0.0;
  double lr_end2 = 0.0;
  double base_lr = 1e-5;  // CosineAnnealing*: none given: learning_rate
  int64_t t_max = 1;
  double eta_min = 0.0;
  int64_t t_0 = 1;
  int64_t t_mult = 1;

  bool operator==(const LrSchedulerConfig&) const = default;
};

}  // namespace tessera
