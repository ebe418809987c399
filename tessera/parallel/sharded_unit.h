#pragma once

// FSDP / HSDP of one unit: its weights are cut over the ranks of an axis between uses, gathered
// before one, freed after it, and their gradients reduced into shards (Zhao et al. 2023, PyTorch
// FSDP; Rajbhandari et al. 2020, ZeRO-3).
//
// Masters and main gradients are float32 (float64 for a float64 model), whatever the layers compute
// in: weights are gathered in the dtype of their use, rounded to what is stored between steps
// (Micikevicius et al. 2017, arXiv 1710.03740, 3.1), gradients are summed in the masters' dtype.
//
// The full weights are views of one storage per dtype. Saved tensors of the autograd graph point at
// that storage, so freeing and refilling the same storage keeps them right and keeps no copy.

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "tessera/comm/device_mesh.h"
#include "tessera/comm/sharded_param.h"
#include "tessera/nn/parameter.h"

namespace tessera {

class ShardedUnit {
 public:
  /// Adds a row to `table` for every part of `weights`, which are placed (masters of dtype
  /// `master`, zero) and binds every weight's value. `axis` shards: fsdp, or efsdp for experts that
  /// ep cuts. The weights are all frozen or none is: those that are have no gradients and are held
  /// in the type in which they are stored instead of `master`.
  ShardedUnit(std::string name, std::vector<Weight*> weights, const DeviceMesh& mesh, Axis axis,
              at::ScalarType master, ParamTable& table);
  ShardedUnit(const ShardedUnit&) = delete;
  ShardedUnit& operator=(const ShardedUnit&) = delete;

  const std::string& name() const { return name_; }
  bool is_frozen() const { return weights_.front()->frozen; }

  /// Starts the gather unless the full weights are there or on their way.
  void prefetch();
  /// Begins a use: the full weights are there when it returns, until end_use().
  void unshard();
  /// Ends a use. With `free`, gives the full weights back as soon as no other use is left; the next
  /// one gathers again. (A forward and a backward in turns may use a unit at once.)
  void end_use(bool free);
  /// Gives the full weights back; nobody uses them.
  void reshard();

  /// One backward use: gradients of the weights in their order, undefined where the use has none.
  /// Kept full until `uses` of the unit have arrived, then, unless `defer`, reduced into the
  /// table's gradients (started; finished by the next call or wait_reduce). Deferred sums stay
  /// full, in the main dtype, until a call without `defer`.
  void add_gradients(std::vector<at::Tensor> gradients, bool defer);
  void wait_reduce();

  /// Says that one more call of a micro-batch uses this unit (a tied matrix has several).
  void add_use() { ++uses_; }

  /// Calls `observe` with every part's gradient of every micro-batch, as this rank made it, before
  /// anything is reduced, in the order of the micro-batches. Costs memory: sums of micro-batches
  /// are then made beside the gradients.
  using Observe = std::function<void(const ParameterPart&, const at::Tensor& gradient)>;
  void observe_gradients(Observe observe) { observe_ = std::move(observe); }

  /// For injected faults: multiplies every gradient; leaves this rank's own part unsummed.
  void set_gradient_factor(double factor) { gradient_factor_ = factor; }
  void skip_reduction() { skip_reduction_ = true; }

  const std::vector<Weight*>& weights() const { return weights_; }
  /// Calls `visit` with every part of every weight and its row of the table.
  void for_each_part(const std::function<void(const ParameterPart&, ShardedParam&)>& visit) const;

 private:
  struct Buffer {  // full weights of one dtype
    at::ScalarType dtype;
    at::Tensor flat;  // [numel], storage freed while resharded
  };
  void bind(at::ScalarType master, ParamTable& table, const DeviceMesh& mesh);
  void allocate();
  void free();
  void start_reduce(std::vector<at::Tensor> full);
  void observe_use(const std::vector<at::Tensor>& gradients);
  void report_observed();

  std::string name_;
  std::vector<Weight*> weights_;
  Axis axis_;
  ProcessGroup group_;

  std::vector<Buffer> buffers_;
  std::vector<ShardedParam*> params_;    // all parts of all weights, in order
  std::vector<at::ScalarType> storage_;  // of each, between steps
  std::vector<at::Tensor> full_parts_;   // views of the buffers, one per part
  std::vector<std::vector<size_t>> parts_of_weight_;
  bool aliased_ = false;  // one rank and nothing to round: the full weights are the masters
  bool resident_ = false;
  int users_ = 0;
  bool free_when_unused_ = false;
  Work gathering_;
  std::vector<at::Tensor> gather_inputs_;

  double gradient_factor_ = 1.0;
  bool skip_reduction_ = false;
  int uses_ = 0;
  int arrived_ = 0;
  std::vector<at::Tensor> pending_;  // full gradients not yet reduced, one per weight
  Observe observe_;
  std::vector<at::Tensor> observed_;  // sums over the uses of one micro-batch, one per weight
  Work reducing_;
  std::vector<at::Tensor> reducing_inputs_;
};

}  // namespace tessera
