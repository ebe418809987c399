#include "tessera/parallel/custom_gradient.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "tessera/base/error.h"

namespace tessera {
namespace {

class CustomGradient : public torch::autograd::Node {
 public:
  explicit CustomGradient(std::function<std::vector<at::Tensor>(const at::Tensor&)> backward)
      : backward_(std::move(backward)) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
    TESSERA_CHECK(backward_, "differentiated twice");
    const at::NoGradGuard no_grad;
    return backward_(grads[0].defined() ? grads[0].contiguous() : input_metadata(0).zeros_like());
  }
  void release_variables() override {
    backward_ = nullptr;
  }

 private:
  std::function<std::vector<at::Tensor>(const at::Tensor&)> backward_;
};

}  // namespace

at::Tensor custom_gradient(
    const std::vector<at::Tensor>& inputs, at::Tensor y,
    std::function<std::vector<at::Tensor>(const at::Tensor& grad)> backward) {
  bool needed = false;
  for (const at::Tensor& input : inputs) needed |= input.defined() && input.requires_grad();
  if (!at::GradMode::is_enabled() || !needed) return y;
  y = y.detach();
  const auto node = c10::make_intrusive<CustomGradient>(std::move(backward));
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  torch::autograd::set_history(y, node);
  return y;
}

}  // namespace tessera
