#include "tessera/comm/regions.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "tessera/base/box.h"
#include "tessera/base/error.h"

namespace tessera {
namespace {

class RegionBackward : public torch::autograd::Node {
 public:
  explicit RegionBackward(std::function<at::Tensor(const at::Tensor&)> backward)
      : backward_(std::move(backward)) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
    const at::NoGradGuard no_grad;
    const at::Tensor grad =
        grads[0].defined() ? grads[0].contiguous() : input_metadata(0).zeros_like();
    return {backward_(grad)};
  }

  std::string name() const override { return "RegionBackward"; }

 private:
  const std::function<at::Tensor(const at::Tensor&)> backward_;
};

at::Tensor with_rows(const at::Tensor& like, int64_t rows) {
  std::vector<int64_t> sizes = like.sizes().vec();
  TESSERA_CHECK(!sizes.empty(), "a region takes tensors with rows");
  sizes[0] = rows;
  return at::empty(sizes, like.options().requires_grad(false));
}

at::Tensor gathered(const at::Tensor& shard, int64_t rows, const ProcessGroup& group) {
  at::Tensor full = with_rows(shard, rows);
  group.all_gather({full}, {shard}).wait();
  return full;
}

at::Tensor scattered(const at::Tensor& full, const ProcessGroup& group) {
  at::Tensor shard = with_rows(full, part_of(full.size(0), group.size(), group.rank()).size());
  group.reduce_scatter({shard}, {full}).wait();
  return shard;
}

at::Tensor exchanged(const at::Tensor& x, const std::vector<int64_t>& out_splits,
                     const std::vector<int64_t>& in_splits, const ProcessGroup& group) {
  int64_t rows = 0;
  for (int64_t split : out_splits) rows += split;
  at::Tensor out = with_rows(x, rows);
  group.all_to_all(out, x, out_splits, in_splits).wait();
  return out;
}

}  // namespace

at::Tensor with_backward(const at::Tensor& x, at::Tensor y,
                         std::function<at::Tensor(const at::Tensor& grad)> backward) {
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return y;
  y = y.detach();
  const auto node = c10::make_intrusive<RegionBackward>(std::move(backward));
  node->set_next_edges(torch::autograd::collect_next_edges(x));
  torch::autograd::set_history(y, node);
  return y;
}

at::Tensor gather_from_sp(const at::Tensor& x, int64_t rows, const ProcessGroup& group) {
  return with_backward(x, gathered(x.detach().contiguous(), rows, group),
                       [group](const at::Tensor& grad) { return scattered(grad, group); });
}

at::Tensor sum_over_members(const at::Tensor& x, const ProcessGroup& group) {
  const auto summed = [group](const at::Tensor& values) {
    at::Tensor sum = values.clone();
    group.all_reduce({sum}).wait();
    return sum;
  };
  return with_backward(x, summed(x.detach().contiguous()), summed);
}

at::Tensor scatter_to_sp(const at::Tensor& x, const ProcessGroup& group) {
  const int64_t rows = x.size(0);
  return with_backward(
      x, scattered(x.detach().contiguous(), group),
      [group, rows](const at::Tensor& grad) { return gathered(grad, rows, group); });
}

at::Tensor all_to_all(const at::Tensor& x, const std::vector<int64_t>& out_splits,
                      const std::vector<int64_t>& in_splits, const ProcessGroup& group) {
  return with_backward(x, exchanged(x.detach().contiguous(), out_splits, in_splits, group),
                       [group, out_splits, in_splits](const at::Tensor& grad) {
                         return exchanged(grad, in_splits, out_splits, group);
                       });
}

}  // namespace tessera
