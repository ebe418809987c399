#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace tessera {

/// `y` was computed from `inputs` outside of autograd: returns it as their function, whose gradient
/// `backward` computes. It is called once, with a defined, contiguous gradient of y (zeros if none
/// arrived), with autograd off, and returns one gradient per input (undefined: none). What it
/// captures is freed when it has run. If no input needs a gradient, y is returned as it is.
at::Tensor custom_gradient(const std::vector<at::Tensor>& inputs, at::Tensor y,
                           std::function<std::vector<at::Tensor>(const at::Tensor& grad)> backward);

/// The same for several results. `backward` is given one gradient per floating-point result, in
/// order; the others have none and are returned as they are.
std::vector<at::Tensor> custom_gradients(
    const std::vector<at::Tensor>& inputs, std::vector<at::Tensor> results,
    std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& grads)> backward);

}  // namespace tessera
