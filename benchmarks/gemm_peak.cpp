// GFLOP/s of float32 matrix products right now, by number of threads, as one JSON object: what a
// step can reach at most. Best of the products within 0.4 s.
//
//   gemm_peak

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

namespace {

double best_gflops(int threads) {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t kRows = 2048, kInner = 512, kColumns = 1408;
  at::set_num_threads(threads);
  const at::Tensor a = at::randn({kRows, kInner}), b = at::randn({kColumns, kInner});
  at::linear(a, b);
  double best = 1e9;
  for (const auto end = Clock::now() + std::chrono::milliseconds(400); Clock::now() < end;) {
    const auto start = Clock::now();
    at::linear(a, b);
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return 2e-9 * kRows * kInner * kColumns / best;
}

}  // namespace

int main() {
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  std::printf("{\"1\": %.2f", best_gflops(1));
  if (cores > 1) std::printf(", \"%d\": %.2f", cores, best_gflops(cores));
  std::printf("}\n");
  return 0;
}
