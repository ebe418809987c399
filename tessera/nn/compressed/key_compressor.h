#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/nn/module_call.h"
#include "tessera/nn/norm.h"
#include "tessera/nn/seams.h"

namespace tessera {

/// Makes one key out of every m neighbouring tokens of a sample (DeepSeek-V4, as transformers has
/// it): entry e = norm(sum over the tokens of softmax(gate) * value), softmax over the tokens for
/// each number by itself, at least in float32; then its last numbers are rotated as the token at
/// place e m is. Only whole groups of m tokens make an entry. With `overlaps` each token has two
/// halves: an entry is made of the second halves of its own group and the first halves of the group
/// before it (the first group: its own alone). D size of an entry, C = D, or 2 D with overlaps.
struct KeyCompressor {
  int64_t ratio = 4;  // m
  bool overlaps = false;
  std::unique_ptr<Projections> value_gate;  // two parts of [C, H]: value, gate
  Weight place_bias;                        // [m, C], added to the gate by the place in the group
  std::unique_ptr<Norm> norm;               // [D]

  /// x [rows * s, H] -> [rows, s / m, D], rotated by the context's tables of layers without a
  /// window.
  at::Tensor forward(const at::Tensor& x_TH, const LayerContext& context) const;
  std::vector<Weight*> weights();
};

}  // namespace tessera
