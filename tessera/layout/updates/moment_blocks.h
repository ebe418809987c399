#pragma once

// Moments of eight bits are coded in blocks of 256 elements, in the order of the whole matrix
// (row-major), however it is cut; experts of a stack are matrices of their own. What a rank's part
// of a matrix has to do with these blocks.

#include <cstdint>
#include <set>
#include <vector>

#include "tessera/base/box.h"

namespace tessera {

inline constexpr int64_t kMomentBlock = 256;  // elements

/// Elements of a rank that are neighbours in the whole matrix.
struct BlockRun {
  int64_t first = 0;  // place of the first in the whole matrix
  int64_t length = 0;
  int64_t local = 0;  // place of the first in the rank's part
  int64_t block = 0;  // place of its block among those that the part touches
};

/// The blocks that a part of a matrix touches, in order.
struct MatrixBlocks {
  std::vector<BlockRun> runs;
  int64_t count = 0;

  /// The number of a block in the whole matrix, by its place.
  std::vector<int64_t> numbers() const;
};

/// Of the rows and columns in `box` ([rows, columns]) of a matrix with `columns` columns.
MatrixBlocks matrix_blocks(int64_t columns, const Box& box);

/// Where any cut of a matrix is: rows, and columns, with which a part begins.
struct CutLines {
  std::set<int64_t> rows;
  std::set<int64_t> columns;
};

/// The numbers of the blocks of a matrix [rows, columns] whose elements several parts share,
/// ascending.
std::vector<int64_t> divided_blocks(int64_t rows, int64_t columns, const CutLines& cuts);

}  // namespace tessera
