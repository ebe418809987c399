#include "tessera/config/fields/lr_schedule_keys.h"

#include <algorithm>

namespace tessera {

std::vector<std::string_view> lr_schedule_keys(std::string_view type) {
  std::vector<std::string_view> keys = {"warmup_steps", "warmup_lr_init", "warmup_ratio"};
  const auto with = [&](std::initializer_list<std::string_view> more) {
    keys.insert(keys.end(), more);
    return keys;
  };
  if (type == "ConstantWarmUpLR" || type == "LinearWithWarmUpLR") return keys;
  if (type == "CosineWithWarmUpLR" || type == "CosineWithRestartsAndWarmUpLR") {
    return with({"num_cycles", "lr_end", "decay_steps", "decay_ratio"});
  }
  if (type == "PolynomialWithWarmUpLR") {
    return with({"lr_end", "power", "decay_steps", "decay_ratio"});
  }
  if (type == "WarmUpStableDecayLR") {
    return with({"lr_end", "decay_start_steps", "decay_start_ratio"});
  }
  if (type == "ConstantWithCoolDownLR") {
    return with({"keep_steps", "decay_steps", "decay_ratio", "num_cycles", "lr_end1", "final_steps",
                 "lr_end2"});
  }
  if (type == "CosineAnnealingLR") return {"base_lr", "t_max", "eta_min"};
  if (type == "CosineAnnealingWarmRestarts") return {"base_lr", "t_0", "t_mult", "eta_min"};
  return {};
}

bool is_lr_schedule_key(std::string_view type, std::string_view key) {
  if (key == "type" || key == "learning_rate" || key == "total_steps") return true;
  const auto keys = lr_schedule_keys(type);
  return std::ranges::find(keys, key) != keys.end();
}

}  // namespace tessera
