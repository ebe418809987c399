// Each fused kernel beside the ATen operations it stands for, forward and backward, one thread.
// Names: <kernel>/<fused|aten>/<width or vocabulary>. Google Benchmark's flags apply.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <vector>

#include "tessera/nn/attention/rotary.h"
#include "tessera/nn/attention/split_heads.h"
#include "tessera/nn/kernels/gated_unit.h"
#include "tessera/nn/kernels/rms_norm.h"
#include "tessera/nn/seams.h"

namespace {

using namespace tessera;
using Tensors = std::vector<at::Tensor>;
constexpr int64_t kTokens = 2048, kHeads = 8, kKvHeads = 4;

at::Tensor leaf(at::IntArrayRef shape) {
  return at::randn(shape).mul_(0.02).set_requires_grad(true);
}

// Forward and backward of `function`, whose single output gets a gradient of ones.
void measure(benchmark::State& state, const Tensors& leaves,
             const std::function<at::Tensor()>& function) {
  at::set_num_threads(1);
  at::Tensor ones = at::ones_like(function());
  for (auto _ : state) {
    const at::Tensor out = function();
    benchmark::DoNotOptimize(torch::autograd::grad({out}, leaves, {ones}));
  }
  state.SetItemsProcessed(state.iterations() * kTokens);  // tokens
}

void rms_norm_of(benchmark::State& state, bool fused) {
  const at::Tensor x = leaf({kTokens, state.range(0)}), weight = leaf({state.range(0)});
  measure(state, {x, weight}, [&] {
    if (fused) return rms_norm(x, weight, 1e-5);
    return x * at::rsqrt(x.square().mean(-1, true) + 1e-5) * weight;
  });
}

at::Tensor rotate_by_aten(const at::Tensor& x_TND, const at::Tensor& cos, const at::Tensor& sin) {
  const Tensors half = x_TND.chunk(2, -1);
  const at::Tensor c = cos.unsqueeze(1), s = sin.unsqueeze(1);
  return at::cat({half[0] * c - half[1] * s, half[1] * c + half[0] * s}, -1);
}

void rotary(benchmark::State& state, bool fused) {
  const int64_t width = state.range(0);
  const at::Tensor x = leaf({kTokens, kHeads, width});
  const at::Tensor angle = at::randn({kTokens, width / 2}), cos = angle.cos(), sin = angle.sin();
  measure(state, {x},
          [&] { return fused ? apply_rotary(x, cos, sin) : rotate_by_aten(x, cos, sin); });
}

void swiglu_of(benchmark::State& state, bool fused) {
  const at::Tensor gate_up = leaf({kTokens, 2 * state.range(0)});
  measure(state, {gate_up}, [&] {
    if (fused) return gated_unit(gate_up);
    const Tensors half = gate_up.chunk(2, -1);
    return at::silu(half[0]) * half[1];
  });
}

// Product with the head and cross entropy over the vocabulary.
void loss_head(benchmark::State& state, bool fused) {
  const at::Tensor x = leaf({kTokens, 256});
  LossHead head;
  head.own_weight = std::make_unique<Weight>();
  head.weight = head.own_weight.get();
  head.weight->value = leaf({state.range(0), 256});
  const at::Tensor labels = at::randint(state.range(0), {kTokens}, at::kLong);
  const at::Tensor mask = at::ones({kTokens});
  measure(state, {x, head.weight->value}, [&] {
    if (fused) return head.loss(x, labels, mask, 1.0 / kTokens);
    return at::cross_entropy_loss(at::linear(x, head.weight->value), labels);
  });
}

// One product for q, k and v, and one pass that rotates them, against three products; hidden is
// heads x width. The output is all three side by side, since only one can be measured.
void qkv(benchmark::State& state, bool fused) {
  const int64_t width = state.range(0), hidden = kHeads * width;
  const std::vector<int64_t> rows{hidden, kKvHeads * width, kKvHeads * width};
  const at::Tensor x = leaf({kTokens, hidden});
  const at::Tensor angle = at::randn({kTokens, width / 2}), cos = angle.cos(), sin = angle.sin();
  Projections projections;
  projections.part_rows = rows;
  projections.weight.value = leaf({hidden + 2 * kKvHeads * width, hidden});
  Tensors parts;
  for (const int64_t count : rows) parts.push_back(leaf({count, hidden}));
  Tensors leaves{x};
  if (fused) {
    leaves.push_back(projections.weight.value);
  } else {
    leaves.insert(leaves.end(), parts.begin(), parts.end());
  }
  measure(state, leaves, [&] {
    if (fused) {
      const auto heads =
          split_heads(projections.stacked(x), rows, width, HeadNorm{}, HeadNorm{}, cos, sin);
      return at::cat({heads[0], heads[1], heads[2]}, 1);
    }
    const auto product = [&](size_t i) {
      return at::linear(x, parts[i]).view({kTokens, rows[i] / width, width});
    };
    return at::cat(
        {rotate_by_aten(product(0), cos, sin), rotate_by_aten(product(1), cos, sin), product(2)},
        1);
  });
}

BENCHMARK_CAPTURE(rms_norm_of, fused, true)->Arg(256)->Arg(512)->Arg(4096);
BENCHMARK_CAPTURE(rms_norm_of, aten, false)->Arg(256)->Arg(512)->Arg(4096);
BENCHMARK_CAPTURE(rotary, fused, true)->Arg(32)->Arg(64)->Arg(128);
BENCHMARK_CAPTURE(rotary, aten, false)->Arg(32)->Arg(64)->Arg(128);
BENCHMARK_CAPTURE(swiglu_of, fused, true)->Arg(704)->Arg(1408);
BENCHMARK_CAPTURE(swiglu_of, aten, false)->Arg(704)->Arg(1408);
BENCHMARK_CAPTURE(loss_head, fused, true)->Arg(8192)->Arg(32000);
BENCHMARK_CAPTURE(loss_head, aten, false)->Arg(8192)->Arg(32000);
BENCHMARK_CAPTURE(qkv, fused, true)->Arg(32)->Arg(64);
BENCHMARK_CAPTURE(qkv, aten, false)->Arg(32)->Arg(64);

}  // namespace

BENCHMARK_MAIN();
