#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/sharded_param.h"
#include "tessera/config/config.h"

namespace tessera {

/// Whether weight decay applies to a parameter. First hit wins: an include rule, an exclude rule,
/// one dimension or less, a name that ends in ".bias", else yes. A rule matches by equality,
/// substring or glob, against the Hugging Face name or MindFormers' name of the parameter.
bool is_decayed(const OptimizerConfig& config, const std::string& name, size_t dimensions);

/// Updates the masters of a table from its finished gradients.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// One update with rate `lr`; every gradient is first multiplied by `gradient_scale` (clipping).
  virtual void step(double lr, double gradient_scale) = 0;
  /// State tensors of parameter i of the table, by name ("exp_avg", …), shaped like its box.
  virtual std::vector<std::pair<std::string, at::Tensor>> state(size_t param) const = 0;
  /// Updates made so far (for the bias correction), and its restoration.
  int64_t updates() const { return updates_; }
  void set_updates(int64_t updates) { updates_ = updates; }

 protected:
  int64_t updates_ = 0;
};

/// AdamW (Loshchilov and Hutter 2019, as torch.optim.AdamW computes it) or SGD with momentum and
/// weight decay (torch.optim.SGD), by config.type. `table` must outlive it.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, ParamTable& table);

}  // namespace tessera
