#pragma once

// What all optimizers have: the masters that they move, the state that they keep between updates,
// and the number of updates. The trainer steps one, the checkpoint saves its state.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tessera/comm/device_mesh.h"
#include "tessera/comm/sharded_param.h"
#include "tessera/config/config.h"
#include "tessera/optim/moments.h"

namespace tessera {

/// Parameters that take the same weight decay.
struct DecayGroup {
  double weight_decay = 0.0;
  std::vector<size_t> params;  // rows of the table that are trained and have something in them
};

/// Updates the masters of a table from its finished gradients.
class Optimizer {
 public:
  /// State of zeros for every row of `table`, in the slots that the optimizer's kind lists. `table`
  /// must outlive the optimizer. Collective over `mesh`.
  Optimizer(const Config& config, ParamTable& table, const DeviceMesh& mesh);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update with rate `lr`; every gradient is first multiplied by `gradient_scale` (clipping),
  /// and by -1 where the file asks to ascend. Collective over the stage; gradients are used up.
  void step(double lr, double gradient_scale);

  /// Whether clip_heads() is to be called after every step.
  virtual bool clips_heads() const { return false; }
  /// Scales the projections of heads whose logits are too large. largest_LH: [layers, heads],
  /// float64, of the step (clip_heads.h).
  virtual void clip_heads(const at::Tensor& /*largest_LH*/) {}

  /// Operations of matrix products that this rank made in the last update.
  virtual double flops() const { return 0; }
  /// What this rank keeps between updates.
  int64_t state_bytes() const;

  /// State tensors of parameter i of the table, as they are kept.
  std::vector<StateTensor> state(size_t param) const { return moments_.kept(param); }
  /// Fills what is kept in codes from numbers, see Moments::encode.
  void encode_state(const Moments::Read& read) { moments_.encode(read); }
  /// Updates made so far (for the bias correction), and its restoration.
  int64_t updates() const { return updates_; }
  void set_updates(int64_t updates) { updates_ = updates; }

 protected:
  /// Moves the masters of `group` by their scaled gradients; this is update updates() + 1. It sends
  /// nothing: a rank that holds nothing of a group is not asked.
  virtual void update(const DecayGroup& group, double lr) = 0;
  /// What is to be done once all groups are updated, by all ranks of the stage together.
  virtual void finish_update(double /*lr*/) {}

  ParamTable& table() { return table_; }
  ShardedParam& param(size_t i) { return *table_.params()[i]; }
  /// The tensor of a parameter in the slot at place `slot` of the list of config.kind: in the
  /// master's type, in update().
  at::Tensor& slot(size_t param, size_t slot) { return moments_.tensor(param, slot); }
  const OptimizerConfig& config() const { return config_; }
  /// The ranks of the stage; only where the optimizer needs whole matrices or keeps codes.
  const ProcessGroup& stage() const { return stage_; }

 private:
  OptimizerConfig config_;
  ParamTable& table_;
  ProcessGroup stage_;
  Moments moments_;
  std::vector<std::vector<DecayGroup>> groups_;  // by batch of the moments
  int64_t updates_ = 0;
};

}  // namespace tessera
