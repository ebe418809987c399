#pragma once

// Between tensors and the kernels' raw rows.

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/nn/kernels/kernels.h"

namespace tessera {

/// Whether the kernels compute tensors like x; if not, libtorch's operators do.
inline bool has_kernels(const at::Tensor& x) {
  const auto type = x.scalar_type();
  return x.device().is_cpu() &&
         (type == at::kFloat || type == at::kDouble || type == at::kBFloat16);
}

/// x itself where its last dimension is dense and at most two others lead it, else a copy.
inline at::Tensor with_dense_rows(const at::Tensor& x) {
  return x.dim() >= 1 && x.dim() <= 3 && x.stride(-1) == 1 ? x : x.contiguous();
}

namespace detail {

template <typename T>
kernels::Rows<T> make_rows(const at::Tensor& x, T* data) {
  const int64_t width = x.size(-1);
  if (x.dim() == 3) return {data, x.size(1), x.stride(0), x.stride(1)};
  if (x.dim() == 2) return {data, 1, x.stride(0), 0};
  return {data, 1, width, 0};  // contiguous
}

}  // namespace detail

template <typename T>
kernels::Rows<const T> const_rows(const at::Tensor& x) {
  return detail::make_rows<const T>(x, static_cast<const T*>(x.const_data_ptr()));
}
template <typename T>
kernels::Rows<T> mutable_rows(const at::Tensor& x) {
  return detail::make_rows<T>(x, static_cast<T*>(x.mutable_data_ptr()));
}

/// Calls f(T{}) with the kernels' type for `type`.
template <typename F>
void dispatch_kernel(at::ScalarType type, F&& f) {
  if (type == at::kFloat) return f(float{});
  if (type == at::kDouble) return f(double{});
  TESSERA_CHECK(type == at::kBFloat16, "no kernel for ", at::toString(type));
  f(kernels::Bf16{});
}

/// f(begin, end) over rows, shared among libtorch's threads where that pays.
template <typename F>
void over_rows(int64_t rows, int64_t width, const F& f) {
  constexpr int64_t kElementsOfATask = 1 << 15;
  at::parallel_for(0, rows, std::max<int64_t>(1, kElementsOfATask / std::max<int64_t>(1, width)),
                   f);
}

}  // namespace tessera
