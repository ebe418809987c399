#include "tessera/parallel/tensor/overlapped_products.h"

#include <ATen/ATen.h>

#include <functional>
#include <optional>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/nn/kernels/products.h"
#include "tessera/nn/scalar_type.h"
#include "tessera/parallel/custom_gradient.h"

namespace tessera {
namespace {

// Rows of one member: [T, C] -> [t, C].
at::Tensor slice_of(const at::Tensor& full, int member, const ProcessGroup& group) {
  const int64_t rows = full.size(0) / group.size();
  return full.narrow(0, member * rows, rows);
}

// Everyone sends `sent` to the member `hop` places after it and gets `received` from the one as far
// before it; both [t, C].
Work shift(const at::Tensor& received, const at::Tensor& sent, int hop, const ProcessGroup& group) {
  const auto size = static_cast<size_t>(group.size());
  std::vector<int64_t> out_splits(size, 0), in_splits(size, 0);
  in_splits[static_cast<size_t>((group.rank() + hop) % group.size())] = sent.size(0);
  out_splits[static_cast<size_t>((group.rank() - hop + group.size()) % group.size())] =
      received.size(0);
  return group.all_to_all(received, sent, std::move(out_splits), std::move(in_splits));
}

// The slices [t, C] of all members on their way to everyone.
class Arriving {
 public:
  Arriving(const at::Tensor& slice_tC, const ProcessGroup& group) : group_(group) {
    full_ = at::empty({slice_tC.size(0) * group.size(), slice_tC.size(1)}, slice_tC.options());
    const at::Tensor own = slice_of(full_, group.rank(), group);
    own.copy_(slice_tC);
    for (int hop = 1; hop < group.size(); ++hop) {
      works_.push_back(shift(slice_of(full_, member(hop), group), own, hop, group));
    }
  }

  /// Rows of one member after the other, the own ones first, each as soon as it is there.
  void each(const std::function<void(int member, const at::Tensor& slice_tC)>& use) {
    use(group_.rank(), slice_of(full_, group_.rank(), group_));
    for (int hop = 1; hop < group_.size(); ++hop) {
      works_[static_cast<size_t>(hop - 1)].wait();
      use(member(hop), slice_of(full_, member(hop), group_));
    }
  }

  /// [T, C], complete.
  const at::Tensor& all() {
    for (Work& work : works_) work.wait();
    return full_;
  }

 private:
  int member(int hop) const { return (group_.rank() - hop + group_.size()) % group_.size(); }

  const ProcessGroup group_;
  at::Tensor full_;
  std::vector<Work> works_;
};

// Parts of sums on their way to the members that own the sums.
class Departing {
 public:
  /// `product`(member) -> [t, C]: this rank's part of that member's sum; the own one comes last.
  Departing(const std::function<at::Tensor(int member)>& product, const ProcessGroup& group)
      : group_(group), parts_(static_cast<size_t>(group.size())) {
    for (int hop = 1; hop < group.size(); ++hop) {
      sent_.push_back(product((group.rank() + hop) % group.size()));
      const auto from = static_cast<size_t>((group.rank() - hop + group.size()) % group.size());
      parts_[from] = at::empty_like(sent_.back());
      works_.push_back(shift(parts_[from], sent_.back(), hop, group));
    }
    parts_[static_cast<size_t>(group.rank())] = product(group.rank());
  }

  /// [t, C]; member 0 first.
  at::Tensor sum() {
    for (Work& work : works_) work.wait();
    const at::ScalarType dtype = parts_[0].scalar_type();
    at::Tensor sum = parts_[0].to(accumulation_type(dtype), false, /*copy=*/true);
    for (size_t member = 1; member < parts_.size(); ++member) sum.add_(parts_[member]);
    return sum.to(dtype);
  }

 private:
  const ProcessGroup group_;
  std::vector<at::Tensor> parts_;  // of this rank's sum, by member
  std::vector<at::Tensor> sent_;
  std::vector<Work> works_;
};

}  // namespace

at::Tensor overlapped_column_product(const at::Tensor& x_tI, const at::Tensor& weight_OI,
                                     const at::Tensor& bias_O, const ProcessGroup& group) {
  const at::Tensor x = x_tI.detach();
  at::Tensor y_TO = at::empty({x.size(0) * group.size(), weight_OI.size(0)}, x.options());
  {
    const at::NoGradGuard no_grad;
    Arriving(x, group).each([&](int member, const at::Tensor& rows) {
      at::Tensor y = slice_of(y_TO, member, group).copy_(product_nt(rows, weight_OI));
      if (bias_O.defined()) y.add_(bias_O);
    });
  }
  return custom_gradient(
      {x_tI, weight_OI, bias_O}, y_TO,
      [x, weight = weight_OI, has_bias = bias_O.defined(), group](const at::Tensor& grad_TO) {
        const bool of_weight = weight.requires_grad();
        std::optional<Arriving> again;  // while the product by the weight is computed
        if (of_weight) again.emplace(x, group);
        Departing grad_x(
            [&](int member) { return product_nn(slice_of(grad_TO, member, group), weight); },
            group);
        at::Tensor grad_weight;  // hides the gradient's way
        if (of_weight) grad_weight = weight_gradient(weight, grad_TO, again->all());
        return std::vector<at::Tensor>{grad_x.sum(), std::move(grad_weight),
                                       has_bias ? grad_TO.sum(0) : at::Tensor()};
      });
}

at::Tensor overlapped_row_product(const at::Tensor& x_TI, const at::Tensor& weight_OI,
                                  const ProcessGroup& group) {
  const at::Tensor x = x_TI.detach();
  TESSERA_CHECK_EQ(x.size(0) % group.size(), 0, x.size(0), " rows over ", group.size());
  at::Tensor y_tO;
  {
    const at::NoGradGuard no_grad;
    const auto product = [&](int member) {
      return product_nt(slice_of(x, member, group), weight_OI);
    };
    y_tO = Departing(product, group).sum();
  }
  return custom_gradient(
      {x_TI, weight_OI}, y_tO, [x, weight = weight_OI, group](const at::Tensor& grad_tO) {
        Arriving grad(grad_tO, group);
        at::Tensor grad_x = at::empty_like(x);
        grad.each([&](int member, const at::Tensor& rows) {
          slice_of(grad_x, member, group).copy_(product_nn(rows, weight));
        });
        at::Tensor grad_weight;
        if (weight.requires_grad()) grad_weight = weight_gradient(weight, grad.all(), x);
        return std::vector<at::Tensor>{std::move(grad_x), std::move(grad_weight)};
      });
}

}  // namespace tessera
