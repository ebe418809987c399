#pragma once

// For optimizers that need whole matrices: the matrices of a pipeline stage are dealt to its ranks,
// each to one, balanced by the work of Newton-Schulz on it. The ranks that hold parts of a matrix
// send them to its owner and get the rows of the result back, in rounds. Engine and planner ask the
// same deal.

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/layout/parallel_dims.h"
#include "tessera/layout/placement.h"
#include "tessera/layout/updates/matrix_pieces.h"

namespace tessera {

/// A weight, or the stack of the experts' weights of a layer.
struct DealtTensor {
  std::string name;
  std::vector<int64_t> shape;    // of the whole model: [rows, columns], or [experts, rows, columns]
  std::vector<AxisCut> cuts;     // as stored_cuts() tells
  std::vector<RowPiece> pieces;  // of each matrix
};

/// A piece of one matrix: what one rank iterates on.
struct DealtMatrix {
  size_t tensor = 0;   // place in the list
  int64_t matrix = 0;  // of a stack
  RowPiece piece;
  int64_t rows = 0;  // of the piece
  int64_t columns = 0;
  int64_t owner = 0;  // place on the stage
  int64_t round = 0;

  int64_t numel() const { return rows * columns; }
  int64_t shorter() const { return rows < columns ? rows : columns; }
};

/// What one rank holds of a dealt matrix.
struct MatrixShare {
  int64_t place = 0;  // on the stage
  Range columns;
  std::vector<PieceRun> runs;  // rows
  int64_t elements = 0;
};

class MatrixDeal {
 public:
  /// Of the stage that `rank` is in. Every rank of it makes the same from the same tensors, in
  /// whatever order they are.
  MatrixDeal(std::vector<DealtTensor> tensors, const ParallelDims& dims, int64_t rank);

  const std::vector<DealtTensor>& tensors() const { return tensors_; }
  /// Round by round.
  const std::vector<DealtMatrix>& matrices() const { return matrices_; }
  int64_t rounds() const { return rounds_; }
  int64_t ranks() const { return ranks_; }  // of the stage

  /// Every rank that holds a part; those that hold the same are copies.
  std::vector<MatrixShare> holders(const DealtMatrix& matrix) const;
  /// One rank for every part: the owner where it holds it, else one of its own replica.
  std::vector<MatrixShare> sources(const DealtMatrix& matrix) const;

 private:
  // Ranks that hold the same box of a tensor.
  struct Holding {
    Box box;
    std::vector<int64_t> places;
  };
  void find_holdings(const ParallelDims& dims, int64_t rank);
  void deal();
  void make_rounds();
  int64_t whole_holder(const DealtMatrix& matrix, const std::vector<double>& load) const;
  int64_t source(const Holding& holding, int64_t owner) const;
  template <typename Visit>
  void visit_shares(const DealtMatrix& matrix, Visit visit) const;

  std::vector<DealtTensor> tensors_;
  std::vector<std::vector<Holding>> holdings_;  // by tensor
  std::vector<DealtMatrix> matrices_;
  int64_t ranks_ = 1;
  int64_t replica_ranks_ = 1;  // neighbours on the stage that hold everything once
  int64_t rounds_ = 0;
};

/// Work of one iteration of Newton-Schulz on a matrix, in operations.
double newton_schulz_flops(const DealtMatrix& matrix);

}  // namespace tessera
