#pragma once

// What a layer computes with, and what the published model calls it.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/layout/model_spec.h"
#include "tessera/layout/placement.h"

namespace tessera {

/// How a parameter starts (values depend on the seed, the name and the element's index alone).
enum class InitKind { kNormal, kOnes, kZeros };

/// One tensor of the published model: a row of the parameter table.
struct ParameterPart {
  std::string name;            // Hugging Face name; stacked experts hold "{e}" for the expert
  std::vector<int64_t> shape;  // of the whole model, uncut
  ParamRole role = ParamRole::kNorm;
  InitKind init = InitKind::kNormal;
  double init_std = 0.02;               // of kNormal
  at::ScalarType storage = at::kFloat;  // of the parameter between steps, whatever `value` is
  Placement placement;                  // set from outside, never read by layers
};

/// A leaf of autograd. Its rows (dimension 0) are the rows of `parts` one after the other, so that
/// several published matrices over one input (q, k, v; gate, up) are one product. `value` is bound
/// by whoever owns the storage; layers take every size from it. An absent parameter (no bias) has
/// no parts.
struct Weight {
  std::vector<ParameterPart> parts;
  at::ScalarType dtype = at::kFloat;  // in which `value` is bound; its gradient leaves in it too
  bool frozen = false;                // no gradient is made of it
  at::Tensor value;

  bool present() const { return !parts.empty(); }
};

}  // namespace tessera
