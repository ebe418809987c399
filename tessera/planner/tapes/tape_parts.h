#pragma once

// The operations of which layers are made, on a tape. T tokens, S of them on the residual stream.

#include <cstdint>
#include <set>
#include <vector>

#include "tessera/layout/layer_modules.h"
#include "tessera/layout/parallel_dims.h"
#include "tessera/layout/recompute_plan.h"
#include "tessera/planner/tapes/activation_tape.h"
#include "tessera/planner/tapes/local_sizes.h"

namespace tessera {

struct TapeParts {
  using Tensor = ActivationTape::Tensor;

  ActivationTape& tape;
  const ModelConfig& model;
  const ParallelDims& dims;
  const LocalSizes& sizes;
  const ParallelismConfig& parallelism;
  const std::set<ParamRole>& adapted;  // matrices of the unit that have adapters

  /// Whether the weights of the model have no gradients.
  bool is_frozen() const { return model.lora.is_given(); }

  /// Columns of a product that are one matrix's.
  struct Part {
    ParamRole role;
    int64_t columns;
  };
  enum class Over { kNone, kGathered, kScattered };  // tp, for the few columns between A and B
  /// What the A's of adapters make of x [rows, in]: `columns` columns, of the rows of B.
  Tensor low(Tensor x, int64_t rows, int64_t in, int64_t columns, Over over,
             int64_t groups = 1) const;
  /// y [rows, sum of columns] of x [.., in], and what the adapters of its parts add in its place.
  /// `groups`: of experts.
  Tensor with_adapters(Tensor y, Tensor x, int64_t in, const std::vector<Part>& parts, int64_t rows,
                       Over over = Over::kNone, int64_t groups = 1) const;

  /// x [rows, in] -> [rows, out], x kept.
  Tensor linear(Tensor x, int64_t rows, int64_t in, int64_t out) const;
  /// x [S, in] -> [T, out of this rank]: gathered over tp, again in the backward.
  Tensor column(Tensor x, int64_t in, int64_t out) const;
  /// x [T, in of this rank] -> [S, out]: scattered over tp.
  Tensor row(Tensor x, int64_t in, int64_t out) const;
  Tensor trained(Tensor x, int64_t rows, int64_t from, int64_t to, int64_t matrices) const;
  /// x [rows, width], or several heads of `width` in a row of `columns`.
  Tensor norm(Tensor x, int64_t rows, int64_t columns, int64_t width) const;
  /// [rows, 2 F] -> [rows, F]
  Tensor gated_unit(Tensor gate_up, int64_t rows, int64_t width) const;
  /// a + b
  Tensor sum(Tensor a, Tensor b, int64_t bytes) const;
  /// [S, H] -> [T, H] of `columns`, over tp.
  Tensor gather(Tensor x, int64_t columns) const;

  int64_t bytes(int64_t rows, int64_t columns) const { return rows * columns * sizes.element; }
  /// The message over tp that gathers or scatters [T, columns].
  Work over_tp(std::string_view operation, int64_t columns) const {
    return message_work(Axis::kTp, operation, dims.tp, 1,
                        bytes(sizes.slice, columns) * (dims.tp - 1));
  }
};

/// The sub-modules of a layer: what `plan` selects is a checkpoint, what it keeps inside of one (or
/// of a layer that is one) does not run again.
class TapeModules {
 public:
  TapeModules(ActivationTape& tape, const RecomputePlan& plan, int64_t layer)
      : tape_(tape), plan_(plan), layer_(layer) {}

  int64_t layer() const { return layer_; }
  bool selects(LayerModule module) const { return plan_.selects(layer_, module); }
  template <typename F>
  ActivationTape::Tensor operator()(LayerModule module, const F& body) {
    if (plan_.keeps(layer_, module)) {
      tape_.begin_kept(result_is_overwritten(module));
      const ActivationTape::Tensor result = body();
      tape_.end_kept(result);
      return result;
    }
    if (inside_ || !selects(module)) return body();
    inside_ = true;
    tape_.begin_checkpoint();
    const ActivationTape::Tensor result = body();
    tape_.end_checkpoint(result);
    inside_ = false;
    return result;
  }

 private:
  ActivationTape& tape_;
  const RecomputePlan& plan_;
  int64_t layer_;
  bool inside_ = false;
};

/// y [S, H], normed -> [S, H].
ActivationTape::Tensor attention_tape(const TapeParts& parts, TapeModules& modules,
                                      ActivationTape::Tensor y);

/// The same of multi-head latent attention.
ActivationTape::Tensor latent_attention_tape(const TapeParts& parts, TapeModules& modules,
                                             ActivationTape::Tensor y);

/// The feed-forward part of a layer without experts.
ActivationTape::Tensor mlp_tape(const TapeParts& parts, TapeModules& modules,
                                ActivationTape::Tensor y);

/// With experts, evenly used.
ActivationTape::Tensor experts_tape(const TapeParts& parts, TapeModules& modules,
                                    ActivationTape::Tensor y);

}  // namespace tessera
