#include "tessera/nn/attention/document_begins.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "tessera/base/error.h"

namespace tessera {

at::Tensor document_begins(const LayerContext& context) {
  if (context.document_ends.empty()) return {};
  at::Tensor begins = at::empty({context.rows, context.seq_length}, at::kLong);
  for (int64_t row = 0; row < context.rows; ++row) {
    int64_t* const of_row = begins.mutable_data_ptr<int64_t>() + row * context.seq_length;
    int64_t begin = 0;
    for (const int64_t end : context.document_ends[static_cast<size_t>(row)]) {
      TESSERA_CHECK(end >= begin && end <= context.seq_length, "document end ", end);
      std::fill(of_row + begin, of_row + end, begin);
      begin = end;
    }
    TESSERA_CHECK_EQ(begin, context.seq_length, "documents of row ", row);
  }
  return begins;
}

}  // namespace tessera
