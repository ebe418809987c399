#pragma once

// Which keys a query of a block sees. Places are those of one sample. L queries of the block from
// place `first` on.

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tessera {

/// Where the queries of a block stand. `begins` [L] int64: place where the document of each begins;
/// undefined: 0.
struct QueryBlock {
  int64_t row = 0;
  int64_t first = 0;
  int64_t end = 0;  // exclusive
  at::Tensor begins;

  int64_t size() const { return end - first; }
};

/// f(block) over blocks of at most `most` queries of every row, in order. document_begins [rows,
/// length] or undefined.
template <typename F>
void over_query_blocks(int64_t rows, int64_t length, int64_t most,
                       const at::Tensor& document_begins, const F& f) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t first = 0; first < length; first += most) {
      QueryBlock block{row, first, first + most < length ? first + most : length, {}};
      if (document_begins.defined()) {
        block.begins = document_begins.select(0, row).narrow(0, first, block.size());
      }
      f(block);
    }
  }
}

/// [L, keys] bool, true where query t does not see the key at place j: j > t, j <= t - window, or j
/// in front of the document. Keys from place `first_key` on.
at::Tensor outside_window(const QueryBlock& block, int64_t window, int64_t first_key, int64_t keys,
                          const at::Device& device);

/// [L, entries] bool, true where query t does not see entry e of `ratio` tokens: the group does not
/// end in front of t + 1, or does not lie wholly in the document of t.
at::Tensor hidden_entries(const QueryBlock& block, int64_t ratio, int64_t entries,
                          const at::Device& device);

}  // namespace tessera
