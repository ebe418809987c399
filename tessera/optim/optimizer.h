#pragma once

// What all optimizers have: the masters that they move, the state that they keep between updates,
// and the number of updates. The trainer steps one, the checkpoint saves its state.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tessera/comm/device_mesh.h"
#include "tessera/comm/sharded_param.h"
#include "tessera/config/config.h"

namespace tessera {

/// Parameters that take the same weight decay.
struct DecayGroup {
  double weight_decay = 0.0;
  std::vector<size_t> params;  // rows of the table that are trained and have something in them
};

/// Updates the masters of a table from its finished gradients.
class Optimizer {
 public:
  /// State of zeros for every row of `table`, in the slots that the optimizer's kind lists. Both
  /// `table` and `mesh` must outlive the optimizer.
  Optimizer(const Config& config, ParamTable& table, const DeviceMesh& mesh);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update with rate `lr`; every gradient is first multiplied by `gradient_scale` (clipping),
  /// and by -1 where the file asks to ascend. Collective over the stage; gradients are used up.
  void step(double lr, double gradient_scale);

  /// State tensors of parameter i of the table, by name ("exp_avg", …), shaped like its box.
  const std::vector<std::pair<std::string, at::Tensor>>& state(size_t param) const {
    return state_[param];
  }
  /// Updates made so far (for the bias correction), and its restoration.
  int64_t updates() const { return updates_; }
  void set_updates(int64_t updates) { updates_ = updates; }

 protected:
  /// Moves the masters of `group` by their scaled gradients; this is update updates() + 1. It sends
  /// nothing: a rank that holds nothing of a group is not asked.
  virtual void update(const DecayGroup& group, double lr) = 0;
  /// What is to be done once all groups are updated, by all ranks of the stage together.
  virtual void finish_update(double /*lr*/) {}

  ShardedParam& param(size_t i) { return *table_.params()[i]; }
  /// The tensor of a parameter in the slot at place `slot` of the list of config.kind.
  at::Tensor& slot(size_t param, size_t slot) { return state_[param][slot].second; }
  const OptimizerConfig& config() const { return config_; }
  ParamTable& table() { return table_; }
  const DeviceMesh& mesh() const { return mesh_; }

 private:
  OptimizerConfig config_;
  ParamTable& table_;
  const DeviceMesh& mesh_;
  std::vector<std::vector<std::pair<std::string, at::Tensor>>> state_;  // by row of the table
  std::vector<DecayGroup> groups_;
  int64_t updates_ = 0;
};

}  // namespace tessera
