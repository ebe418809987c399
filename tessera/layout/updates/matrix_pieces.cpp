#include "tessera/layout/updates/matrix_pieces.h"

#include <algorithm>

namespace tessera {
namespace {

// Blocks of `first` and `second` rows in turn; a part without rows is none.
std::vector<RowPiece> two_parts(int64_t first, int64_t second, int64_t count) {
  std::vector<RowPiece> pieces;
  const int64_t period = first + second;
  if (first > 0) pieces.push_back({period, 0, first, count});
  if (second > 0) pieces.push_back({period, first, period, count});
  return pieces;
}

}  // namespace

std::vector<RowPiece> matrix_pieces(ParamRole role, int64_t rows, const ModelConfig& model) {
  switch (role) {
    case ParamRole::kMlaQB:
      return two_parts(model.qk_nope_head_dim, model.qk_rope_head_dim, model.num_attention_heads);
    case ParamRole::kMlaKvA: return two_parts(model.kv_lora_rank, model.qk_rope_head_dim, 1);
    case ParamRole::kMlaKvB:
      return two_parts(model.qk_nope_head_dim, model.v_head_dim, model.num_attention_heads);
    default: return {{rows, 0, rows, 1}};
  }
}

std::vector<PieceRun> piece_runs(const RowPiece& piece, Range range) {
  std::vector<PieceRun> runs;
  if (range.size() <= 0) return runs;
  const int64_t height = piece.end - piece.begin;
  const int64_t last = std::min(piece.count - 1, (range.end - 1) / piece.period);
  for (int64_t block = range.begin / piece.period; block <= last; ++block) {
    const int64_t from = std::max(range.begin, block * piece.period + piece.begin);
    const int64_t to = std::min(range.end, block * piece.period + piece.end);
    if (from >= to) continue;
    const int64_t inside = from - block * piece.period - piece.begin;
    runs.push_back({block * height + inside, from, to - from});
  }
  return runs;
}

}  // namespace tessera
