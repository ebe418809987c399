#include "tessera/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tessera/base/error.h"

namespace tessera {
namespace {

double share(int64_t part, int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<int64_t>(1, whole));
}

double half_cosine(double angle) { return std::max(0.0, 0.5 * (1.0 + std::cos(angle))); }

// Loshchilov and Hutter 2017 (SGDR): cycle k has t_0 * t_mult^k steps.
double annealing_with_restarts(const LrSchedulerConfig& s, int64_t step) {
  int64_t length = std::max<int64_t>(1, s.t_0);
  while (step >= length) {
    step -= length;
    length *= std::max<int64_t>(1, s.t_mult);
  }
  return s.eta_min + (s.base_lr - s.eta_min) * half_cosine(std::numbers::pi * share(step, length));
}

}  // namespace

double learning_rate(const LrSchedulerConfig& s, int64_t total, int64_t step) {
  const double lr = s.learning_rate;
  const int64_t warmup = s.warmup_steps;

  if (s.type == "CosineAnnealingLR") {
    return s.eta_min + (s.base_lr - s.eta_min) * 0.5 *
                           (1.0 + std::cos(std::numbers::pi * share(step, s.t_max)));
  }
  if (s.type == "CosineAnnealingWarmRestarts") return annealing_with_restarts(s, step);

  const bool cosine = s.type == "CosineWithWarmUpLR" || s.type == "CosineWithRestartsAndWarmUpLR";
  if (cosine && step >= s.decay_steps.value_or(std::max<int64_t>(1, total))) {
    return s.lr_end;
  }
  if (step < warmup) return s.warmup_lr_init + (lr - s.warmup_lr_init) * share(step, warmup);
  if (s.type == "ConstantWarmUpLR" || s.type.empty()) return lr;
  const double progress = share(step - warmup, total - warmup);
  if (s.type == "LinearWithWarmUpLR") {
    return lr * std::max(0.0, share(total - step, total - warmup));
  }
  if (s.type == "CosineWithWarmUpLR") {
    return s.lr_end +
           (lr - s.lr_end) * half_cosine(2.0 * std::numbers::pi * s.num_cycles * progress);
  }
  if (s.type == "CosineWithRestartsAndWarmUpLR") {
    if (progress >= 1.0) return s.lr_end;
    return s.lr_end + (lr - s.lr_end) *
                          half_cosine(std::numbers::pi * std::fmod(s.num_cycles * progress, 1.0));
  }
  if (s.type == "PolynomialWithWarmUpLR") {
    if (step > total) return s.lr_end;
    const int64_t decay = s.decay_steps.value_or(total - warmup);
    const double left = std::max(0.0, 1.0 - share(step - warmup, decay));
    return (lr - s.lr_end) * std::pow(left, s.power) + s.lr_end;
  }
  if (s.type == "WarmUpStableDecayLR") {
    const int64_t start = s.decay_start_steps;
    if (step < start) return lr;
    return lr - (lr - s.lr_end) * std::min(1.0, share(step - start, total - start));
  }
  if (s.type == "ConstantWithCoolDownLR") {
    const int64_t keep = warmup + s.keep_steps;
    const int64_t decay = s.decay_steps.value_or(total - keep);
    if (step < keep) return lr;
    if (step < keep + decay) {
      return s.lr_end1 + (lr - s.lr_end1) * half_cosine(2.0 * std::numbers::pi * s.num_cycles *
                                                        share(step - keep, decay));
    }
    return step < keep + decay + s.final_steps ? s.lr_end1 : s.lr_end2;
  }
  throw ConfigError("lr_scheduler.type = " + s.type + " is not a schedule");
}

}  // namespace tessera
