#include "tessera/planner/tapes/tape_parts.h"

#include <algorithm>

namespace tessera {

using Tensor = ActivationTape::Tensor;

Tensor TapeParts::linear(Tensor x, int64_t rows, int64_t in, int64_t out) const {
  ActivationTape::Operation o;
  o.inputs = {x};
  o.bytes = bytes(rows, out);
  if (!is_frozen()) o.saved = {x};
  if (!is_frozen()) o.weight_gradient = bytes(in, out);
  o.forward = {product_work(rows, in, out)};
  o.backward = {product_work(rows, in, out, is_frozen() ? 1 : 2)};
  return tape.add(o);
}

// x [rows, from] -> [rows, to] by a matrix that is trained, or one for each of `matrices` groups.
Tensor TapeParts::trained(Tensor x, int64_t rows, int64_t from, int64_t to,
                          int64_t matrices) const {
  ActivationTape::Operation o;
  o.inputs = {x};
  o.bytes = bytes(rows, to);
  o.saved = {x};
  o.weight_gradient = matrices * bytes(from, to);
  const int64_t each = std::max<int64_t>(1, rows / matrices);
  o.forward = {product_work(each, from, to, matrices)};
  o.backward = {product_work(each, from, to, 2 * matrices)};
  return tape.add(o);
}

Tensor TapeParts::low(Tensor x, int64_t rows, int64_t in, int64_t columns, Over over,
                      int64_t groups) const {
  const Tensor made = trained(x, rows, in, columns, groups);
  ActivationTape::Operation scale;
  scale.inputs = {made};
  scale.bytes = bytes(rows, columns);
  const Tensor scaled = tape.add(scale);
  tape.release(made);
  if (over == Over::kNone || dims.tp == 1) return scaled;
  const bool gathers = over == Over::kGathered;
  ActivationTape::Operation move;
  move.inputs = {scaled};
  move.bytes = bytes(gathers ? sizes.tokens : sizes.slice, columns);
  move.forward = {over_tp(gathers ? "all_gather" : "reduce_scatter", columns)};
  move.backward = {over_tp(gathers ? "reduce_scatter" : "all_gather", columns)};
  const Tensor moved = tape.add(move);
  tape.release(scaled);
  return moved;
}

Tensor TapeParts::with_adapters(Tensor y, Tensor x, int64_t in, const std::vector<Part>& parts,
                                int64_t rows, Over over, int64_t groups) const {
  std::vector<Part> own;
  int64_t all = 0;
  for (const Part& part : parts) {
    all += part.columns;
    if (adapted.contains(part.role)) own.push_back(part);
  }
  if (own.empty()) return y;
  const int64_t rank = model.lora.lora_rank;
  const bool travels = over != Over::kNone && dims.tp > 1;
  const int64_t rows_of_a = !travels ? rows : over == Over::kGathered ? sizes.slice : sizes.tokens;
  const Tensor between =
      low(x, rows_of_a, in, rank * static_cast<int64_t>(own.size()), over, groups);
  for (const Part& part : own) {
    const Tensor added = trained(between, rows, rank, part.columns, groups);
    ActivationTape::Operation sum;
    sum.inputs = {y, added};
    sum.view_of = y;
    sum.gradient = bytes(rows, all);
    sum.passes_gradient = true;
    const Tensor both = tape.add(sum);
    tape.release(added);
    y = both;
  }
  return y;
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
  o.forward = {product_work(sizes.tokens, in, out)};
  if (is_frozen()) {
    o.backward = {product_work(sizes.tokens, in, out)};
  } else {
    o.saved = {x};
    o.backward_extra = bytes(sizes.tokens, in);  // gathered again
    o.weight_gradient = bytes(in, out);
    o.backward = {over_tp("all_gather", in), product_work(sizes.tokens, in, out, 2)};
    o.backward.front().hidden = true;  // one product needs it
  }
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
  if (!is_frozen()) o.weight_gradient = width * size_of(model.layernorm_compute_dtype);
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
