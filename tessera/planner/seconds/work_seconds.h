#pragma once

#include <vector>

#include "tessera/config/config.h"
#include "tessera/layout/parallel_dims.h"
#include "tessera/planner/machine/machine.h"
#include "tessera/planner/seconds/spent.h"
#include "tessera/planner/tapes/work.h"

namespace tessera {

/// What the work of the ranks of a layout takes on a machine, while a rank has its processor (its
/// device, or the cores of the host) for itself.
class WorkSeconds {
 public:
  /// `processes`: of ranks that share a host; else they are threads.
  WorkSeconds(const Machine& machine, const Config& config, const ParallelDims& dims,
              bool processes);

  /// One after the other; messages that are hidden cost what is left of them after all that is
  /// computed.
  SpentSeconds of(const std::vector<Work>& work) const;

  /// One message of a group in which the rank sends `bytes`; `stride` between its neighbours.
  double message(std::string_view operation, int64_t ranks, int64_t stride, double bytes) const;
  /// The same of the group of an axis.
  double message(Axis axis, std::string_view operation, double bytes) const;
  /// Bytes that pass through memory.
  double elements(double bytes) const;

  const Machine& machine() const { return machine_; }

 private:
  double compute(const Work& work) const;

  const Machine& machine_;
  const ParallelDims dims_;
  const ComputeRates& rates_;
  std::string transport_;
};

}  // namespace tessera
