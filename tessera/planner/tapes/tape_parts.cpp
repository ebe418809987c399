#include "tessera/planner/tapes/tape_parts.h"

namespace tessera {

using Tensor = ActivationTape::Tensor;

Tensor TapeParts::linear(Tensor x, int64_t rows, int64_t in, int64_t out) const {
  ActivationTape::Operation o;
  o.inputs = {x};
  o.bytes = bytes(rows, out);
  o.saved = {x};
  o.weight_gradient = bytes(in, out);
  o.forward = {product_work(rows, in, out)};
  o.backward = {product_work(rows, in, out, 2)};
  return tape.add(o);
}

Tensor TapeParts::gather(Tensor x, int64_t columns) const {
  if (dims.tp == 1) return x;
  ActivationTape::Operation o;
  o.inputs = {x};
  o.bytes = bytes(sizes.tokens, columns);
  o.forward = {over_tp("all_gather", columns)};
  o.backward = {over_tp("reduce_scatter", columns)};
  return tape.add(o);
}

Tensor TapeParts::column(Tensor x, int64_t in, int64_t out) const {
  if (dims.tp == 1) return linear(x, sizes.tokens, in, out);
  const Tensor gathered = gather(x, in);
  ActivationTape::Operation o;
  o.inputs = {gathered};
  o.bytes = bytes(sizes.tokens, out);
  o.saved = {x};
  o.backward_extra = bytes(sizes.tokens, in);  // gathered again
  o.weight_gradient = bytes(in, out);
  o.forward = {product_work(sizes.tokens, in, out)};
  o.backward = {over_tp("all_gather", in), product_work(sizes.tokens, in, out, 2)};
  o.backward.front().hidden = true;  // one product needs it
  const Tensor y = tape.add(o);
  tape.release(gathered);
  return y;
}

Tensor TapeParts::row(Tensor x, int64_t in, int64_t out) const {
  const Tensor y = linear(x, sizes.tokens, in, out);
  if (dims.tp == 1) return y;
  ActivationTape::Operation o;
  o.inputs = {y};
  o.bytes = bytes(sizes.slice, out);
  o.forward = {over_tp("reduce_scatter", out)};
  o.backward = {over_tp("all_gather", out)};
  const Tensor scattered = tape.add(o);
  tape.release(y);
  return scattered;
}

Tensor TapeParts::norm(Tensor x, int64_t rows, int64_t columns, int64_t width) const {
  ActivationTape::Operation o;
  o.inputs = {x};
  o.bytes = bytes(rows, columns);
  o.saved = {x};
  o.keeps = rows * (columns / width) * sizes.wide;
  o.weight_gradient = width * size_of(model.layernorm_compute_dtype);
  return tape.add(o);
}

Tensor TapeParts::gated_unit(Tensor gate_up, int64_t rows, int64_t width) const {
  ActivationTape::Operation o;
  o.inputs = {gate_up};
  o.bytes = bytes(rows, width);
  o.saved = {gate_up};
  return tape.add(o);
}

Tensor TapeParts::sum(Tensor a, Tensor b, int64_t bytes) const {
  ActivationTape::Operation o;
  o.inputs = {a, b};
  o.bytes = bytes;
  o.passes_gradient = true;
  return tape.add(o);
}

}  // namespace tessera
