#pragma once

// Numbers in fewer bits, as states of optimizers are kept: bfloat16 by stochastic rounding, and
// eight bits in blocks (layout/moment_blocks.h). In host memory; tensors are contiguous, `values`
// are float32 or float64.

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

#include "tessera/layout/updates/moment_blocks.h"

namespace tessera {

/// The 256 numbers of the codes, ascending, between -1 (or 0) and 1: the dynamic map of Dettmers et
/// al. 2022 (arXiv 2110.02861, section 2.1), as bitsandbytes has it. The signed map ends at -0.993.
/// A signed code stands for its number times the scale of its block. An unsigned code stands for
/// the square of its number times the scale: an update divides by the root of a second moment, and
/// the numbers lie closer in the root's range, which has half as many decades (FlashOptim, arXiv
/// 2602.23349, codes the root as well).
const std::array<float, 256>& moment_codes(bool is_signed);

/// maxima[b] := the largest |value| in the rank's part of the b-th block that it touches.
void block_maxima(const at::Tensor& values, const MatrixBlocks& blocks, const at::Tensor& maxima);

/// codes[i] := one of the two codes around values[i] / scale of its block (unsigned: around the
/// root of that), with the probabilities that make the mean (of the root) right: an average that
/// changes by less than half a code a step would stand still otherwise. Which, is a function of
/// (key, step, place in the whole matrix). Of unsigned codes a number above zero never becomes
/// zero: a second moment of zero would let the next update be as large as its eps allows.
void encode_moments(const at::Tensor& values, const MatrixBlocks& blocks, const at::Tensor& scales,
                    bool is_signed, uint64_t key, uint64_t step, const at::Tensor& codes);

/// values[i] := what codes[i] stands for, times the scale of its block.
void decode_moments(const at::Tensor& codes, const MatrixBlocks& blocks, const at::Tensor& scales,
                    bool is_signed, const at::Tensor& values);

/// shorts[i] := values[i] in bfloat16, up or down with the probabilities that make the mean right.
/// Which, is a function of (key, step, place in the whole matrix).
void round_moments(const at::Tensor& values, const MatrixBlocks& blocks, uint64_t key,
                   uint64_t step, const at::Tensor& shorts);

}  // namespace tessera
