#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace tessera {

/// `y` was computed from `inputs` outside of autograd: returns it as their function, whose gradient
/// `backward` computes. It is called once, with a defined, contiguous gradient of y (zeros if none
/// arrived), with autograd off, and returns one gradient per input (undefined: none). What it
/// captures is freed when it has run. If no input needs a gradient, y is returned as it is.
at::Tensor custom_gradient(
    const std::vector<at::Tensor>& inputs, at::Tensor y,
    std::function<std::vector<at::Tensor>(const at::Tensor& grad)> backward);

}  // namespace tessera
