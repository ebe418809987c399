#pragma once

// Weights in MXFP4: blocks of 32 numbers of 4 bits that share a scale of 8 bits.
// OCP Microscaling Formats (MX) Specification v1.0, sections 5.3.3 and 6.3.

#include <cstdint>

namespace tessera {

/// A matrix [rows, columns] called NAME lies in two tensors of bytes: NAME_blocks
/// [rows, columns / 32, 16], where a byte holds two numbers (the lower four bits first), and
/// NAME_scales [rows, columns / 32].
inline constexpr const char* kMxfp4Blocks = "_blocks";
inline constexpr const char* kMxfp4Scales = "_scales";
inline constexpr int64_t kMxfp4Block = 32;       // numbers
inline constexpr int64_t kMxfp4BlockBytes = 16;  // that hold them

/// The 32 numbers of a block as bfloat16 (its bits), in which each has its exact value: a number of
/// 1 bit of sign, 2 of exponent and 1 of mantissa, times 2^(scale - 127). False: the scale is 255,
/// which stands for no number, or the numbers are too large for bfloat16.
bool widen_mxfp4(const uint8_t* block, uint8_t scale, uint16_t* bfloat16);

}  // namespace tessera
