#include "tessera/layout/updates/moment_blocks.h"

namespace tessera {

std::vector<int64_t> MatrixBlocks::numbers() const {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  for (const BlockRun& run : runs) {
    const int64_t first = run.first / kMomentBlock;
    const int64_t last = (run.first + run.length - 1) / kMomentBlock;
    for (int64_t block = first; block <= last; ++block) {
      numbers[static_cast<size_t>(run.block + block - first)] = block;
    }
  }
  return numbers;
}

MatrixBlocks matrix_blocks(int64_t columns, const Box& box) {
  MatrixBlocks result;
  if (box.numel() == 0) return result;
  const int64_t width = box.sizes[1];
  const bool whole_rows = width == columns;
  const int64_t runs = whole_rows ? 1 : box.sizes[0];
  const int64_t length = whole_rows ? box.numel() : width;
  int64_t last_block = -1;
  for (int64_t i = 0; i < runs; ++i) {
    const int64_t first = (box.offsets[0] + i) * columns + box.offsets[1];
    const int64_t block = first / kMomentBlock;
    const int64_t place = block == last_block ? result.count - 1 : result.count;
    result.runs.push_back({first, length, i * length, place});
    last_block = (first + length - 1) / kMomentBlock;
    result.count = place + last_block - block + 1;
  }
  return result;
}

std::vector<int64_t> divided_blocks(int64_t rows, int64_t columns, const CutLines& cuts) {
  std::set<int64_t> blocks;
  const auto cut_at = [&](int64_t element) {
    if (element % kMomentBlock != 0) blocks.insert(element / kMomentBlock);
  };
  bool columns_are_cut = false;
  for (const int64_t column : cuts.columns) columns_are_cut |= column > 0 && column < columns;
  if (!columns_are_cut) {
    for (const int64_t row : cuts.rows) {
      if (row > 0 && row < rows) cut_at(row * columns);
    }
  } else {
    for (int64_t row = 0; row < rows; ++row) {
      if (row > 0) cut_at(row * columns);
      for (const int64_t column : cuts.columns) {
        if (column > 0 && column < columns) cut_at(row * columns + column);
      }
    }
  }
  return {blocks.begin(), blocks.end()};
}

}  // namespace tessera
