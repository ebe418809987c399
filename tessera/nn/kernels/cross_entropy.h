#pragma once

#include <ATen/core/Tensor.h>

namespace tessera {

/// Sum over tokens of weights_T * (logsumexp(logits) - logits[label]), a float64 number; softmax in
/// at least float32. Tokens of weight 0 are skipped and their label is not looked at. With a
/// `cap` above 0 a logit z counts as cap * tanh(z / cap). With
/// `with_gradient`, logits_TV (dense) becomes the gradient of that sum, in place.
/// Throws InternalError on a label outside [0, V) of a token that counts.
double cross_entropy_(at::Tensor& logits_TV, const at::Tensor& labels_T,
                      const at::Tensor& weights_T, bool with_gradient, double cap = 0);

}  // namespace tessera
