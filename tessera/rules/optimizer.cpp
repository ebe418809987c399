// Rules of optimizer and lr_scheduler.

#include <algorithm>

#include "tessera/config/fields/field.h"
#include "tessera/config/fields/lr_schedule_keys.h"
#include "tessera/config/suggest.h"
#include "tessera/layout/updates/clipped_heads.h"
#include "tessera/rules/checker.h"

namespace tessera {

namespace {

void check_kind(Checker& check) {
  const std::string& type = check.config.optimizer.type;
  std::vector<std::string> names;
  for (const auto& row : check.optimizers.rows()) names.push_back(row->name);
  check.error("optimizer.type", "must be one of " + check.optimizers.names(),
              nearest_word(type, names));
}

// Keys that only other optimizers have.
void name_keys_of_others(Checker& check) {
  for (const Field& field : all_fields()) {
    if (check.given(field.path) &&
        check.optimizers.is_key_of_others(field.path, *check.config.optimizer.kind)) {
      check.no_effect(field.path);
    }
  }
}

void check_betas(Checker& check, std::string_view path, const std::vector<double>& betas) {
  if (betas.size() != 2) {
    check.error(path, "must be exactly two numbers");
  } else if (std::ranges::any_of(betas, [](double b) { return !(b >= 0.0 && b < 1.0); })) {
    check.error(path, "must be at least 0 and below 1 each");
  }
}

// One triple for ns_steps iterations, or triples that have counts.
void check_newton_schulz(Checker& check) {
  const auto& triples = check.config.optimizer.ns_coefficients;
  const bool counted = !triples.empty() && triples.front().count > 0;
  if (counted && check.given("optimizer.ns_steps")) check.no_effect("optimizer.ns_steps");
}

void check_head_clip(Checker& check) {
  const OptimizerConfig& o = check.config.optimizer;
  if (!o.kind || !o.kind->has("qk_clip_enabled")) return;
  const bool idle = check.model_ok && o.qk_clip_enabled && !clips_heads(check.config);
  if (idle && check.given("optimizer.qk_clip_enabled")) {
    check.no_effect("optimizer.qk_clip_enabled");  // q and k are normed
  }
  if ((idle || !o.qk_clip_enabled) && check.given("optimizer.qk_clip_threshold")) {
    check.no_effect("optimizer.qk_clip_threshold");
  }
}

}  // namespace

void check_optimizer(Checker& check) {
  const OptimizerConfig& o = check.config.optimizer;
  if (!o.kind) check_kind(check);
  check_betas(check, "optimizer.betas", o.betas);
  check_betas(check, "optimizer.adamw_betas", o.adamw_betas);
  check_newton_schulz(check);
  check_head_clip(check);
  if (check.good({"optimizer.momentum"}) && o.momentum >= 1.0) {
    check.error("optimizer.momentum", "must be at least 0 and below 1");
  }
  if (o.kind) name_keys_of_others(check);
  for (const auto& [path, rules] :
       {std::pair{"optimizer.weight_decay_include", &o.weight_decay_include},
        std::pair{"optimizer.weight_decay_exclude", &o.weight_decay_exclude},
        std::pair{"optimizer.adamw_include", &o.adamw_include}}) {
    if (*rules && std::ranges::any_of(**rules, &std::string::empty)) {
      check.error(path, "an empty rule would match every parameter");
    }
  }
}

namespace {

// Files keep keys of another schedule when they change its type.
void name_keys_of_other_schedules(Checker& check) {
  const std::string& type = check.config.lr_scheduler.type;
  for (const Field& field : all_fields()) {
    if (!field.path.starts_with("lr_scheduler.") || !check.given(field.path)) continue;
    if (!is_lr_schedule_key(type, field.path.substr(field.path.find('.') + 1))) {
      check.no_effect(field.path);
    }
  }
}

}  // namespace

void check_lr_schedule(Checker& check) {
  const LrSchedulerConfig& lr = check.config.lr_scheduler;
  const int64_t steps = check.config.training.steps;
  if (!check.good({"lr_scheduler.type"})) return;
  if (lr.type.empty()) {
    const Field* field = find_field("lr_scheduler.type");
    check.error("lr_scheduler.type", "is needed; one of " + std::string(field->choices));
    return;
  }
  name_keys_of_other_schedules(check);
  if (is_lr_schedule_key(lr.type, "warmup_steps")) {
    const bool cosine = lr.type == "CosineWithWarmUpLR";
    if (!cosine && !check.given("lr_scheduler.warmup_steps") && !lr.warmup_ratio) {
      check.error("lr_scheduler.warmup_steps", "or warmup_ratio is needed; 0 for no warm-up", "0");
    }
    if (check.good({"training.steps", "lr_scheduler.warmup_steps"}) && lr.warmup_steps > steps) {
      check.warning("lr_scheduler.warmup_steps", "is beyond training.steps (" +
                                                     std::to_string(steps) +
                                                     "): learning_rate is never reached");
    }
  }
  if (lr.type == "PolynomialWithWarmUpLR" && lr.learning_rate <= lr.lr_end) {
    check.error("lr_scheduler.learning_rate", "must be above lr_end");
  }
  if (lr.type == "WarmUpStableDecayLR") {
    if (!check.given("lr_scheduler.decay_start_steps") && !lr.decay_start_ratio) {
      check.error("lr_scheduler.decay_start_steps", "or decay_start_ratio is needed");
    } else if (check.good({"lr_scheduler.decay_start_steps"}) &&
               lr.decay_start_steps < lr.warmup_steps) {
      check.error("lr_scheduler.decay_start_steps", "must not be before the end of the warm-up (" +
                                                        std::to_string(lr.warmup_steps) + ")");
    }
  }
  if (lr.type == "ConstantWithCoolDownLR" && !lr.decay_steps) {
    check.error("lr_scheduler.decay_steps", "or decay_ratio is needed");
  }
  if (lr.type.starts_with("CosineAnnealing")) {
    if (!check.given("lr_scheduler.base_lr") && !check.given("lr_scheduler.learning_rate")) {
      check.error("lr_scheduler.base_lr", "is needed");
    } else if (check.given("lr_scheduler.base_lr") && check.given("lr_scheduler.learning_rate") &&
               lr.base_lr != lr.learning_rate) {
      check.error("lr_scheduler.base_lr", "disagrees with learning_rate; give one");
    }
    if (lr.type == "CosineAnnealingWarmRestarts" && !check.given("lr_scheduler.t_0")) {
      check.error("lr_scheduler.t_0", "is needed: steps of the first cycle");
    }
  }
}

}  // namespace tessera
