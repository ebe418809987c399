#pragma once

// What an optimizer that works on whole matrices takes apart before: rows of one weight that belong
// to different matrices of the model.

#include <cstdint>
#include <vector>

#include "tessera/base/box.h"
#include "tessera/config/model_config.h"
#include "tessera/config/param_role.h"

namespace tessera {

/// Rows of a matrix [rows, columns]: of each of `count` blocks of `period` rows those in
/// [begin, end). They stand one after the other in the piece.
struct RowPiece {
  int64_t period = 0;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t count = 1;

  int64_t rows() const { return (end - begin) * count; }
  bool operator==(const RowPiece&) const = default;
};

/// The pieces of a matrix of `rows` rows of this role. Latent attention: all heads' rows without
/// rope and all heads' rows with it, of the product to queries; the latent and the rope rows, of
/// the product to keys' and values' latent; all heads' key rows and all heads' value rows, of the
/// product out of it. All else: the whole. (Weights that are one product, as q, k and v, are
/// matrices of their own already.)
std::vector<RowPiece> matrix_pieces(ParamRole role, int64_t rows, const ModelConfig& model);

/// Neighbouring rows that are in a piece.
struct PieceRun {
  int64_t in_piece = 0;   // its first row, in the piece
  int64_t in_matrix = 0;  // and in the matrix
  int64_t rows = 0;
};

/// The rows of `piece` that are in `range` of the matrix, in order.
std::vector<PieceRun> piece_runs(const RowPiece& piece, Range range);

}  // namespace tessera
