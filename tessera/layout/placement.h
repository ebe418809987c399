#pragma once

// Where the ranks hold a parameter, and what they must still sum of its gradient. It follows from
// the role of the parameter and from the layout. The engine marks its weights with it, the planner
// counts bytes by it.

#include <cstdint>
#include <vector>

#include "tessera/base/box.h"
#include "tessera/config/model_config.h"
#include "tessera/layout/axis.h"
#include "tessera/layout/model_spec.h"
#include "tessera/layout/parallel_dims.h"

namespace tessera {

/// One cut: `axis` cuts dimension `dim` of what the cuts before it left. `copies` neighbouring
/// ranks of the axis hold the same part (kv heads fewer than tp); the axis then makes size / copies
/// parts.
struct AxisCut {
  Axis axis = Axis::kTp;
  int dim = 0;
  int copies = 1;
  bool operator==(const AxisCut&) const = default;
};

struct Placement {
  /// How tp or ep cuts what a rank computes with. Experts are stacked: [experts, out, in].
  std::vector<AxisCut> cuts;
  /// The axis whose ranks share out the storage of what `cuts` left: fsdp, or efsdp for what ep
  /// cut.
  Axis sharded_over = Axis::kFsdp;
  /// Axes over which the gradient is still a partial sum when it has been reduced over
  /// `sharded_over`. An axis that also cuts, with copies: to be summed over the copies.
  std::vector<Axis> partial;

  /// Held on the sparse mesh (ep and efsdp), not on the dense one (tp and fsdp).
  bool is_sparse() const { return sharded_over == Axis::kEfsdp; }
};

/// The placement of the parameters of `role`. Column-parallel products are cut by the rows of their
/// matrix, row-parallel ones by the columns (Shoeybi et al. 2019, section 3), the vocabulary by its
/// rows, stacked experts by experts. All else is whole on every rank of tp.
///
/// Partial sums. tp: what neither tp nor ep cuts, because every rank computes with it on tokens of
/// its own (sequence parallelism), and what tp cuts with copies. embedding: a matrix that the first
/// and the last stage of a pipeline both hold. dp_replicate: everything. What no gradient moves (a
/// router's selection bias) has none.
Placement place_parameter(ParamRole role, const ModelConfig& model, const ParallelDims& dims);

/// A low-rank adapter of a matrix W [out, in]: A [rank, in] and B [out, rank], for W + s B A.
enum class AdapterSide { kA, kB };

/// The role of A or B of a matrix. B is cut as W is cut by rows, A as W is cut by columns; else
/// they are whole. So W x + s B A x is the same sum over tp with them and without.
ParamRole adapter_role(ParamRole matrix, AdapterSide side, const LayerDesign& design);

/// The cut by `axis`, or null.
const AxisCut* find_cut(const std::vector<AxisCut>& cuts, Axis axis);

/// The matrices of routed experts, their biases and adapters.
bool is_expert(ParamRole role);

/// A or B of a low-rank adapter.
bool is_adapter(ParamRole role);

/// The cut by the `parts` ranks of `axis` that share out the storage of a tensor of `sizes`: by its
/// rows; where a stack ([experts, rows, columns]) has fewer matrices than there are ranks, by the
/// rows of every matrix, so that every rank holds some.
AxisCut storage_cut(const std::vector<int64_t>& sizes, Axis axis, int64_t parts);

/// All cuts of a tensor of `shape` (of the whole model): those of `placement`, then its storage's.
std::vector<AxisCut> stored_cuts(const Placement& placement, const std::vector<int64_t>& shape,
                                 const ParallelDims& dims);

/// The part of a tensor of `shape` that `rank` holds after `cuts`, in their order (two cuts of one
/// dimension: the second cuts what the first left).
Box box_of(const std::vector<int64_t>& shape, const std::vector<AxisCut>& cuts,
           const ParallelDims& dims, int64_t rank);

}  // namespace tessera
