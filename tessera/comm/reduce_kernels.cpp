#include "tessera/comm/reduce_kernels.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <type_traits>

#include "tessera/base/error.h"

namespace tessera {
namespace {

constexpr int64_t kBlock = 2048;  // elements; the partial results of a block stay in L1

template <typename T>
constexpr bool is_half = std::is_same_v<T, c10::BFloat16> || std::is_same_v<T, c10::Half>;

struct Sum {
  template <typename T>
  static T apply(T a, T b) {
    return a + b;
  }
};
// NaN wins in both, as in torch.
struct Max {
  template <typename T>
  static T apply(T a, T b) {
    return (a > b || a != a) ? a : b;
  }
};
struct Min {
  template <typename T>
  static T apply(T a, T b) {
    return (a < b || a != a) ? a : b;
  }
};

template <typename Out, typename In, typename Op>
void reduce(void* out_raw, bool accumulate, const void* const* inputs, int num_inputs,
            int64_t count) {
  using Acc = std::conditional_t<is_half<Out>, float, Out>;
  Out* out = static_cast<Out*>(out_raw);
  Acc partial[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t length = std::min(kBlock, count - begin);
    const In* first = static_cast<const In*>(inputs[0]) + begin;
    for (int64_t i = 0; i < length; ++i) partial[i] = static_cast<Acc>(first[i]);
    for (int k = 1; k < num_inputs; ++k) {
      const In* in = static_cast<const In*>(inputs[k]) + begin;
      for (int64_t i = 0; i < length; ++i) {
        partial[i] = static_cast<Acc>(Op::apply(partial[i], static_cast<Acc>(in[i])));
      }
    }
    Out* target = out + begin;
    if (accumulate) {
      for (int64_t i = 0; i < length; ++i) {
        target[i] = static_cast<Out>(Op::apply(static_cast<Acc>(target[i]), partial[i]));
      }
    } else {
      for (int64_t i = 0; i < length; ++i) target[i] = static_cast<Out>(partial[i]);
    }
  }
}

template <typename Out, typename In>
ReduceKernel pick(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return reduce<Out, In, Sum>;
    case ReduceOp::kMax: return reduce<Out, In, Max>;
    case ReduceOp::kMin: return reduce<Out, In, Min>;
  }
  return nullptr;
}

}  // namespace

ReduceKernel reduce_kernel(at::ScalarType out, at::ScalarType in, ReduceOp op) {
  using at::ScalarType;
  if (out == in) {
    switch (out) {
      case ScalarType::Double: return pick<double, double>(op);
      case ScalarType::Float: return pick<float, float>(op);
      case ScalarType::BFloat16: return pick<c10::BFloat16, c10::BFloat16>(op);
      case ScalarType::Half: return pick<c10::Half, c10::Half>(op);
      case ScalarType::Long: return pick<int64_t, int64_t>(op);
      case ScalarType::Int: return pick<int32_t, int32_t>(op);
      case ScalarType::Byte: return pick<uint8_t, uint8_t>(op);
      default: break;
    }
  }
  if (out == ScalarType::Float && in == ScalarType::BFloat16) return pick<float, c10::BFloat16>(op);
  if (out == ScalarType::Float && in == ScalarType::Half) return pick<float, c10::Half>(op);
  if (out == ScalarType::Float && in == ScalarType::Double) return pick<float, double>(op);
  if (out == ScalarType::Double && in == ScalarType::Float) return pick<double, float>(op);
  if (out == ScalarType::Double && in == ScalarType::BFloat16) {
    return pick<double, c10::BFloat16>(op);
  }
  if (out == ScalarType::Double && in == ScalarType::Half) return pick<double, c10::Half>(op);
  TESSERA_CHECK(false, "no reduction from ", in, " to ", out);
  return nullptr;
}

}  // namespace tessera
