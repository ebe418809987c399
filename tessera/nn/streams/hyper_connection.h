#pragma once

// A residual of several streams (manifold-constrained hyper-connections, Xie et al. 2025, arXiv
// 2512.24880, in the form of transformers' DeepSeek-V4). T tokens, N streams, H hidden; the streams
// of a token lie one after the other in a row, [T, N H].

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tessera/nn/parameter.h"

namespace tessera {

/// How N streams are read and written at one site of a layer. All of it is computed from the
/// streams themselves, in at least float32.
struct HyperConnection {
  Weight fn;                // [(2 + N) N, N H]: rows of pre, post, comb (row by row)
  Weight base;              // [(2 + N) N]
  Weight scale;             // [3]: of pre, post, comb
  int64_t streams = 1;      // N
  int64_t iterations = 20;  // of sinkhorn()
  double norm_eps = 1e-6;   // of the root mean square over all N H numbers of a token
  double eps = 1e-6;        // added to pre, and in sinkhorn()

  struct Site {
    at::Tensor collapsed_TH;  // sum over i of pre_i x_i, in the type of x: what the block reads
    at::Tensor post_TN;       // weight of the block's result in each stream
    at::Tensor comb_TNN;      // [old stream, new stream]
  };
  /// pre = sigmoid(scale_0 z + base) + eps, post = 2 sigmoid(scale_1 z + base), comb =
  /// sinkhorn(scale_2 z + base), z = fn x / sqrt(mean(x^2) + norm_eps).
  Site open(const at::Tensor& x_TS) const;
  /// New stream j = post_j y + sum over i of comb_ij x_i. [T, N H], [T, H] -> [T, N H].
  at::Tensor close(const at::Tensor& x_TS, const at::Tensor& y_TH, const Site& site) const;

  std::vector<Weight*> weights() { return {&fn, &base, &scale}; }
};

/// The end of the streams: h = sum over i of a_i x_i, a = sigmoid(scale fn x / sqrt(mean(x^2) +
/// norm_eps) + base) + eps.
struct StreamHead {
  Weight fn;     // [N, N H]
  Weight base;   // [N]
  Weight scale;  // [1]
  double norm_eps = 1e-6;
  double eps = 1e-6;

  at::Tensor forward(const at::Tensor& x_TS) const;  // [T, N H] -> [T, H]
  std::vector<Weight*> weights() { return {&fn, &base, &scale}; }
};

/// The beginning of the streams: each is x. [T, H] -> [T, N H].
at::Tensor as_streams(const at::Tensor& x_TH, int64_t streams);

}  // namespace tessera
