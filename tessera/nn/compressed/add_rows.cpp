#include "tessera/nn/compressed/add_rows.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include "tessera/base/error.h"

namespace tessera {

namespace {

// Numbers of a row that a thread takes at least.
constexpr int64_t kColumns = 64;

}  // namespace

void add_rows(const at::Tensor& sum_ED, const at::Tensor& indices_R, const at::Tensor& rows_RD) {
  if (!sum_ED.device().is_cpu()) {
    sum_ED.index_add_(0, indices_R, rows_RD);
    return;
  }
  const at::Tensor indices = indices_R.contiguous(), rows = rows_RD.contiguous();
  TESSERA_CHECK(sum_ED.is_contiguous() && indices.scalar_type() == at::kInt, "rows to add");
  const int64_t width = rows.size(1), count = rows.size(0);
  const int32_t* const index = indices.const_data_ptr<int32_t>();
  AT_DISPATCH_FLOATING_TYPES(rows.scalar_type(), "add_rows", [&] {
    const scalar_t* const from = rows.const_data_ptr<scalar_t>();
    scalar_t* const to = sum_ED.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, width, kColumns, [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < count; ++i) {
        scalar_t* const target = to + index[i] * width;
        for (int64_t c = begin; c < end; ++c) target[c] += from[i * width + c];
      }
    });
  });
}

}  // namespace tessera
