#include "tessera/parallel/custom_gradient.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "tessera/base/error.h"

namespace tessera {
namespace {

using Backward = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

class CustomGradient : public torch::autograd::Node {
 public:
  explicit CustomGradient(Backward backward) : backward_(std::move(backward)) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
    TESSERA_CHECK(backward_, "differentiated twice");
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < grads.size(); ++i) {
      grads[i] = grads[i].defined() ? grads[i].contiguous() : input_metadata(i).zeros_like();
    }
    return backward_(grads);
  }
  void release_variables() override { backward_ = nullptr; }

 private:
  Backward backward_;
};

}  // namespace

std::vector<at::Tensor> custom_gradients(const std::vector<at::Tensor>& inputs,
                                         std::vector<at::Tensor> results, Backward backward) {
  bool needed = false;
  for (const at::Tensor& input : inputs) needed |= input.defined() && input.requires_grad();
  if (!at::GradMode::is_enabled() || !needed) return results;
  const auto node = c10::make_intrusive<CustomGradient>(std::move(backward));
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  for (at::Tensor& result : results) {
    if (!result.is_floating_point()) continue;
    result = result.detach();
    torch::autograd::set_history(result, node);
  }
  return results;
}

at::Tensor custom_gradient(
    const std::vector<at::Tensor>& inputs, at::Tensor y,
    std::function<std::vector<at::Tensor>(const at::Tensor& grad)> backward) {
  return custom_gradients(inputs, {std::move(y)},
                          [backward = std::move(backward)](const std::vector<at::Tensor>& grads) {
                            return backward(grads[0]);
                          })[0];
}

}  // namespace tessera
