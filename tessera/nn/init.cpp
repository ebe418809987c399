#include "tessera/nn/init.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/nn/kernels/philox.h"

namespace tessera {

namespace {

// Number of trailing elements of the box that lie one after the other in the whole parameter.
int64_t run_length(const std::vector<int64_t>& shape, const Box& box) {
  int64_t length = 1;
  for (size_t dim = shape.size(); dim-- > 0;) {
    length *= box.sizes[dim];
    if (box.sizes[dim] != shape[dim]) break;
  }
  return length;
}

template <typename Scalar>
void fill_normal(Scalar* out, double std, uint64_t key, const std::vector<int64_t>& shape,
                 const Box& box) {
  constexpr int64_t kBuffer = 1024;
  double buffer[kBuffer];
  const int64_t run = run_length(shape, box);
  const int64_t runs = box.numel() / run;
  std::vector<int64_t> index = box.offsets;  // of the first element of the run
  for (int64_t r = 0; r < runs; ++r) {
    int64_t rest = r * run;
    for (size_t dim = shape.size(); dim-- > 0;) {
      index[dim] = box.offsets[dim] + rest % box.sizes[dim];
      rest /= box.sizes[dim];
    }
    uint64_t flat = 0;
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      flat = flat * static_cast<uint64_t>(shape[dim]) + static_cast<uint64_t>(index[dim]);
    }
    for (int64_t done = 0; done < run;) {
      const int64_t count = std::min(kBuffer, run - done);
      philox_normal(key, flat + static_cast<uint64_t>(done), count, buffer);
      for (int64_t i = 0; i < count; ++i) *out++ = static_cast<Scalar>(buffer[i] * std);
      done += count;
    }
  }
}

}  // namespace

void fill(at::Tensor& out, InitKind kind, double std, uint64_t seed, const std::string& name,
          const std::vector<int64_t>& shape, const Box& box) {
  const at::NoGradGuard no_grad;
  TESSERA_CHECK(out.sizes().equals(box.sizes), name, ": the box has another shape than the tensor");
  TESSERA_CHECK_EQ(box.sizes.size(), shape.size(), name);
  if (out.numel() == 0) return;
  if (kind == InitKind::kOnes) {
    out.fill_(1);
  } else if (kind == InitKind::kZeros) {
    out.zero_();
  } else {
    const bool direct = out.device().is_cpu() && out.is_contiguous();
    at::Tensor values = direct ? out : at::empty(out.sizes(), out.options().device(at::kCPU));
    const uint64_t key = philox_key(seed, name);
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, values.scalar_type(), "fill", [&] {
      fill_normal(values.mutable_data_ptr<scalar_t>(), std, key, shape, box);
    });
    if (!direct) out.copy_(values);
  }
}

void fill(at::Tensor& out, const ParameterPart& part, uint64_t seed, const Box& box) {
  const size_t place = part.name.find("{e}");
  if (place == std::string::npos) {
    fill(out, part.init, part.init_std, seed, part.name, part.shape, box);
    return;
  }
  const std::vector<int64_t> shape(part.shape.begin() + 1, part.shape.end());
  const Box inner{{box.offsets.begin() + 1, box.offsets.end()},
                  {box.sizes.begin() + 1, box.sizes.end()}};
  for (int64_t i = 0; i < box.sizes[0]; ++i) {
    std::string name = part.name;
    name.replace(place, 3, std::to_string(box.offsets[0] + i));
    at::Tensor expert = out.select(0, i);
    fill(expert, part.init, part.init_std, seed, name, shape, inner);
  }
}

}  // namespace tessera
