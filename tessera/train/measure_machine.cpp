#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <mutex>

#include "tessera/comm/threads/run_ranks.h"
#include "tessera/nn/attention/flash_attention.h"
#include "tessera/nn/kernels/products.h"
#include "tessera/train/calibrate.h"
#include "tessera/train/time_collectives.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// Seconds of one call: the median of those that fit into `budget` seconds, at least three.
double seconds_of(const std::function<void()>& call, double budget = 0.25) {
  call();
  std::vector<double> all;
  const auto begin = Clock::now();
  while (all.size() < 3 || std::chrono::duration<double>(Clock::now() - begin).count() < budget) {
    const auto start = Clock::now();
    call();
    all.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2),
                   all.end());
  return all[all.size() / 2];
}

at::Tensor values(at::IntArrayRef shape, at::ScalarType type) { return at::randn(shape).to(type); }

// y = x W^T and both of its gradients, by the extent of a cube.
Curve products(at::ScalarType type, double& peak) {
  Curve curve;
  for (const int64_t extent : {32, 64, 128, 256, 512, 1024}) {
    const at::Tensor x = values({extent, extent}, type), w = values({extent, extent}, type);
    const double seconds = seconds_of([&] {
      product_nt(x, w);
      product_nn(x, w);
      product_tn(x, w);
    });
    const auto n = static_cast<double>(extent);
    curve.points.push_back({n, 6.0 * n * n * n / seconds});
  }
  peak = std::ranges::max_element(curve.points, {}, &Curve::Point::value)->value;
  for (Curve::Point& point : curve.points) point.value /= peak;
  return curve;
}

ComputeRates rates_of(at::ScalarType type) {
  constexpr int64_t kHeads = 8, kLength = 512, kSize = 64;
  ComputeRates rates;
  rates.products = products(type, rates.peak);
  const auto head_values = [&] {
    return values({1, kLength, kHeads, kSize}, type).transpose(1, 2);
  };
  const at::Tensor q = head_values(), k = head_values(), v = head_values(), grad = head_values();
  const AttentionScores scores{.scale = 0.125, .sinks = {}};
  const FlashResult result = flash_forward(q, k, v, scores, {});
  const at::ScalarType wide = result.lse.scalar_type();
  const at::Tensor dq = at::empty_like(q, wide), dk = at::empty_like(k, wide),
                   dv = at::empty_like(v, wide);
  const double pairs = 2.0 * kHeads * kSize * (kLength * (kLength + 1) / 2);
  rates.attention = 2 * pairs / seconds_of([&] { flash_forward(q, k, v, scores, {}); });
  rates.attention_back = 5 * pairs / seconds_of([&] {
                           flash_backward(grad, q, k, v, result.out, result.lse, scores, {}, dq, dk,
                                          dv, /*add=*/false);
                         });
  return rates;
}

// How much slower each of `ranks` is than one that has all cores, when all compute.
double sharing(int ranks, int cores) {
  constexpr double kSeconds = 0.4;
  std::mutex mutex;
  double calls = 0.0;
  RankOptions options;
  options.threads_per_rank = std::max(1, cores / ranks);
  run_ranks(
      ranks,
      [&](const ProcessGroup& world) {
        const at::Tensor x = values({256, 256}, at::kFloat), w = values({256, 256}, at::kFloat);
        product_nt(x, w);
        world.barrier();
        double own = 0.0;
        const auto begin = Clock::now();
        while (std::chrono::duration<double>(Clock::now() - begin).count() < kSeconds) {
          product_nt(x, w);
          ++own;
        }
        const double took = std::chrono::duration<double>(Clock::now() - begin).count();
        const std::lock_guard<std::mutex> lock(mutex);
        calls += own / took;
      },
      options);
  return ranks / calls;  // seconds of a product of one of them
}

}  // namespace

Machine measure_machine(int cores) {
  at::set_num_threads(cores);
  Machine machine;
  machine.measured = true;
  machine.cores = cores;
  machine.compute[DType::kFloat32] = rates_of(at::kFloat);
  machine.compute[DType::kBFloat16] = rates_of(at::kBFloat16);
  machine.compute[DType::kFloat64] = rates_of(at::kDouble);

  const at::Tensor a = at::ones({1 << 23}), b = at::ones({1 << 23});
  at::Tensor c = at::empty({1 << 23});
  machine.memory_bandwidth = 3.0 * 4 * (1 << 23) / seconds_of([&] { at::add_out(c, a, b); });
  const at::Tensor few = at::ones({8}), more = at::ones({8});
  machine.call = seconds_of([&] { at::add(few, more); });

  double alone = 0.0;
  for (int ranks = 1; ranks <= std::max(8, 2 * cores); ranks *= 2) {
    const double seconds = sharing(ranks, cores);
    if (ranks == 1) alone = seconds;
    machine.sharing.points.push_back({static_cast<double>(ranks), seconds / alone});
  }
  // A slow-down below one is noise.
  for (Curve::Point& point : machine.sharing.points) point.value = std::max(1.0, point.value);

  std::mutex mutex;
  for (const int ranks : {2, 4, 8}) {
    RankOptions options;
    options.threads_per_rank = std::max(1, cores / ranks);
    run_ranks(
        ranks,
        [&](const ProcessGroup& world) {
          const std::vector<CollectiveTimes> rows = time_collectives(world, "threads");
          if (world.rank() != 0) return;
          const std::lock_guard<std::mutex> lock(mutex);
          machine.collectives.insert(machine.collectives.end(), rows.begin(), rows.end());
        },
        options);
  }
  return machine;
}

}  // namespace tessera
