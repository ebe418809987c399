#pragma once

// The low-rank adapters of one product (Hu et al. 2021, "LoRA", arXiv 2106.09685, 4.1): part i of
// y = x W^T becomes y_i + scale * dropout(x) A_i^T B_i^T. Linear layers and experts hold them; a
// product without adapters has an empty value of this type, whose functions return what they get.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tessera/nn/layer_context.h"
#include "tessera/nn/parameter.h"

namespace tessera {

struct Adapters {
  Weight a;               // of all adapted parts: [sum of ranks, in]; experts: [n x E, rank, in]
  std::vector<Weight> b;  // of each: [out, rank]; experts: [E, out, rank]
  std::vector<size_t> parts;  // the adapted parts of the product, ascending
  double scale = 1.0;
  double dropout = 0.0;
  int64_t site = 0;           // of the dropout
  int64_t first_feature = 0;  // of x, where x is some columns of it

  bool present() const { return !parts.empty(); }
  void add_weights(std::vector<Weight*>& all);

  /// scale * dropout(x) A^T: [T, in] -> [T, sum of ranks]; undefined without adapters.
  at::Tensor low(const at::Tensor& x_TI, const LayerContext& context) const;

  /// The same outside of training, where nothing is left out by chance.
  at::Tensor low(const at::Tensor& x_TI) const;

  /// Adds to y [T, sum of rows], in its place, what the adapters make of `low`. `part_rows`:
  /// columns of y of each part.
  at::Tensor added(const at::Tensor& y_TO, const at::Tensor& low_TR,
                   const std::vector<int64_t>& part_rows) const;

  /// The same for one part alone: [T, out_i].
  at::Tensor added_to_part(size_t part, const at::Tensor& y_TO, const at::Tensor& low_TR) const;

  /// The same for experts: y [R, parts x O], x [R, in], rows by expert (no dropout).
  at::Tensor added_by_group(const at::Tensor& y_RO, const at::Tensor& x_RI,
                            const std::vector<int64_t>& rows_of_group, int64_t all_parts) const;
};

}  // namespace tessera
