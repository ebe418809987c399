#pragma once

// Attention over what earlier calls left: the keys and values of every row are kept, so that a call
// computes new tokens alone.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "tessera/nn/seams.h"

namespace tessera {

/// Tokens [first, first + count) of a call are places [past, past + count) of row `row`.
struct RowSpan {
  int64_t row = 0;
  int64_t first = 0;
  int64_t count = 0;
  int64_t past = 0;
};

/// The rows of the call at hand, the same for all layers. Tokens of no span are padding: their
/// attention is zero.
using RowSpans = std::vector<RowSpan>;

/// The form of CoreAttention that generation puts into a layer. CPU only.
class CachedAttention : public CoreAttention {
 public:
  /// Computes the scores of `plain`, whose weights stay where they are; `spans` outlives it.
  CachedAttention(std::unique_ptr<CoreAttention> plain, const RowSpans& spans);

  std::unique_ptr<AttentionCall> begin(const LayerContext& context) override;

  /// Appends the row's new keys [count, M, D] and values [count, M, E], and attends from its new
  /// queries [count, N, D] to all that are kept: [count, N, E].
  at::Tensor attend(const RowSpan& span, const at::Tensor& q, const at::Tensor& k,
                    const at::Tensor& v);
  void forget(int64_t row) { kept_.erase(row); }
  /// Of all keys and values that are kept, room for more included.
  int64_t bytes() const;
  const RowSpans& spans() const { return spans_; }

 private:
  struct Kept {
    at::Tensor keys, values;  // [M, room, D or E]
    int64_t first = 0;        // place of the first one
    int64_t count = 0;
  };
  void append(Kept& kept, const at::Tensor& k, const at::Tensor& v) const;

  std::unique_ptr<CoreAttention> plain_;
  const RowSpans& spans_;
  std::map<int64_t, Kept> kept_;  // by row
};

}  // namespace tessera
