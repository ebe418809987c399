#include "tessera/nn/kernels/widened_product.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <memory>

#include "tessera/base/error.h"

namespace tessera {

namespace {

// A block of the result, and how much of the inner dimension is widened at once. A block of each
// factor and one of the result fit into a second-level cache.
constexpr int64_t kRows = 256;
constexpr int64_t kColumns = 256;
constexpr int64_t kInner = 512;

// Room for one float32 matrix after another. It is taken from the heap, as that of a BLAS is, and
// not as a tensor, whose bytes the plan would have to foretell.
class Room {
 public:
  explicit Room(int64_t elements)
      : elements_(std::make_unique_for_overwrite<float[]>(static_cast<size_t>(elements))) {}

  at::Tensor matrix(int64_t rows, int64_t columns) {
    return at::from_blob(elements_.get(), {rows, columns}, at::kFloat);
  }

  // x in float32. What lies by columns stays so: the copy then reads and writes in order.
  at::Tensor widened(const at::Tensor& x) {
    if (x.stride(0) == 1 && x.stride(1) != 1) return widened(x.t()).t();
    return matrix(x.size(0), x.size(1)).copy_(x);
  }

 private:
  std::unique_ptr<float[]> elements_;
};

}  // namespace

void widened_product(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool add) {
  const int64_t rows = a.size(0), inner = a.size(1), columns = b.size(1);
  TESSERA_CHECK_EQ(b.size(0), inner, "inner dimensions of a product");
  TESSERA_CHECK_EQ(out.size(0), rows, "rows of a product");
  TESSERA_CHECK_EQ(out.size(1), columns, "columns of a product");
  if (out.numel() == 0) return;
  if (inner == 0) {
    if (!add) out.zero_();
    return;
  }
  const int64_t m = std::min(kRows, rows), n = std::min(kColumns, columns);
  const int64_t k = std::min(kInner, inner);
  const int64_t across = (columns + n - 1) / n;
  const int64_t blocks = (rows + m - 1) / m * across;
  at::parallel_for(0, blocks, 1, [&](int64_t first, int64_t last) {
    const at::AutoDispatchBelowADInplaceOrView
        plain;  // threads of a pool record gradients otherwise
    Room of_a(m * k), of_b(k * n), of_sum(m * n);
    for (int64_t block = first; block < last; ++block) {
      const int64_t row = block / across * m, column = block % across * n;
      const int64_t height = std::min(m, rows - row), width = std::min(n, columns - column);
      at::Tensor sum = of_sum.matrix(height, width);
      for (int64_t begin = 0; begin < inner; begin += k) {
        const int64_t depth = std::min(k, inner - begin);
        const at::Tensor left = of_a.widened(a.narrow(0, row, height).narrow(1, begin, depth));
        const at::Tensor right = of_b.widened(b.narrow(0, begin, depth).narrow(1, column, width));
        if (begin == 0) {
          at::mm_out(sum, left, right);
        } else {
          sum.addmm_(left, right);
        }
      }
      const at::Tensor to = out.narrow(0, row, height).narrow(1, column, width);
      if (add) sum.add_(to);
      to.copy_(sum);
    }
  });
}

}  // namespace tessera
