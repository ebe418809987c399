#pragma once

// What the calls of a model keep for their backward and need meanwhile, on one rank. Follows what
// the layers of nn/ and their parallel versions do, operation by operation; a test holds it to what
// runs allocate.

#include <cstdint>
#include <map>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/layout/batch_plan.h"
#include "tessera/layout/parallel_dims.h"
#include "tessera/layout/recompute_plan.h"
#include "tessera/planner/model_units.h"
#include "tessera/planner/tapes/activation_tape.h"
#include "tessera/planner/tapes/local_sizes.h"

namespace tessera {

/// Equal calls are looked at once; not for several threads at a time.
class CallTapes {
 public:
  CallTapes(const Config& config, const ParallelDims& dims, const BatchPlan& batch, int64_t rank);

  /// Of the call of a unit, which may use weights of others: a head that of the embedding, a layer
  /// for multi-token prediction both. A unit that only holds a copy has no call.
  CallMemory measure(const ModelUnit& unit) const;
  /// What the same call has to do.
  const CallWork& work(const ModelUnit& unit) const;

  /// Of the arrays of one micro-batch that every call reads, and of its rotary tables, which are
  /// made with its first forward.
  int64_t batch_bytes() const;
  int64_t rotary_bytes() const;

 private:
  using Tensor = ActivationTape::Tensor;

  using Key = std::vector<int64_t>;
  Key key_of(const ModelUnit& unit) const;  // equal: so are the calls
  ActivationTape begin(const ModelUnit& unit) const;
  Tensor record(ActivationTape& tape, const ModelUnit& unit) const;
  bool runs_again(const ModelUnit& unit) const;
  Tensor embedding(ActivationTape& tape, const ModelUnit& unit) const;
  Tensor layer(ActivationTape& tape, const ModelUnit& unit, Tensor x) const;
  Tensor head(ActivationTape& tape, const ModelUnit& unit, Tensor x) const;
  Tensor prediction(ActivationTape& tape, const ModelUnit& unit, Tensor x) const;

  const Config& config_;
  const ModelConfig& model_;
  ParallelDims dims_;
  LocalSizes sizes_;
  RecomputePlan recompute_;
  int64_t vocabulary_ = 0;  // rows of this rank
  mutable std::map<Key, CallMemory> measured_;
  mutable std::map<Key, CallWork> works_;
};

}  // namespace tessera
