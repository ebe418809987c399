// The attention kernel beside libtorch's and beside a float32 matrix product, one thread, in CPU
// seconds; all are measured in turns, and medians are printed, a JSON object a line. Shares are of
// the rate of the product in the same turns.
//
//   attention_bench [repeats]
//   ATEN_CPU_CAPABILITY=avx2 attention_bench   (both with AVX2; the product by
//   MKL_ENABLE_INSTRUCTIONS)

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tessera/nn/attention/flash_attention.h"

namespace {

using namespace tessera;

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

using Work = std::map<std::string, std::function<void()>>;

// Median CPU seconds of each, measured one after the other, again and again.
std::map<std::string, double> in_turns(const Work& work, int repeats) {
  std::map<std::string, std::vector<double>> seconds;
  for (int i = -1; i < repeats; ++i) {
    for (const auto& [name, function] : work) {
      const double start = cpu_seconds();
      function();
      if (i >= 0) seconds[name].push_back(cpu_seconds() - start);
    }
  }
  std::map<std::string, double> medians;
  for (auto& [name, all] : seconds) {
    std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2),
                     all.end());
    medians[name] = all[all.size() / 2];
  }
  return medians;
}

struct Shape {
  int64_t samples, heads, length, size;
  int64_t window = 0;
  bool masked = false;  // libtorch's with a dense mask of the window

  double pairs() const {
    double all = 0;
    for (int64_t i = 1; i <= length; ++i) {
      all += static_cast<double>(window > 0 ? std::min(i, window) : i);
    }
    return all * static_cast<double>(samples * heads);
  }
};

at::Tensor values(const Shape& s, at::ScalarType type) {
  return at::randn({s.samples, s.length, s.heads, s.size}).to(type).transpose(1, 2);
}

void measure(const Shape& s, at::ScalarType type, int repeats) {
  const at::Tensor q = values(s, type), k = values(s, type), v = values(s, type);
  const at::Tensor grad = values(s, type);
  const AttentionScores scores{
      .scale = 1 / std::sqrt(static_cast<double>(s.size)), .window = s.window, .sinks = {}};
  const FlashResult own = flash_forward(q, k, v, scores, {});
  const auto room = [&] {
    return at::empty({s.samples, s.length, s.heads, s.size},
                     q.options().dtype(own.lse.scalar_type()))
        .transpose(1, 2);
  };
  std::optional<at::Tensor> mask;
  if (s.masked) {
    const at::Tensor place = at::arange(s.length);
    const at::Tensor before = place.unsqueeze(1) - place.unsqueeze(0);
    mask = at::zeros({s.length, s.length}, type)
               .masked_fill_(before.lt(0).logical_or(before.ge(s.window)), -INFINITY);
  }
  const bool causal = !mask.has_value();
  const auto [out, lse] =
      at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, mask, scores.scale);
  constexpr int64_t kRows = 1024, kInner = 512, kColumns = 704;
  const at::Tensor a = at::randn({kRows, kInner}), b = at::randn({kColumns, kInner});

  Work work;
  work["product"] = [&] { at::linear(a, b); };
  work["forward"] = [&] { flash_forward(q, k, v, scores, {}); };
  work["backward"] = [&] {
    flash_backward(grad, q, k, v, own.out, own.lse, scores, {}, room(), room(), room(),
                   /*add=*/false);
  };
  work["libtorch forward"] = [&, &out = out] {
    at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, mask, scores.scale);
  };
  work["libtorch backward"] = [&, &out = out, &lse = lse] {
    at::_scaled_dot_product_flash_attention_for_cpu_backward(grad, q, k, v, out, lse, 0.0, causal,
                                                             mask, scores.scale);
  };
  const auto seconds = in_turns(work, repeats);
  const double peak = 2.0 * kRows * kInner * kColumns / seconds.at("product");
  const double flops = s.pairs() * static_cast<double>(s.size);
  std::printf(
      "{\"type\": \"%s\", \"samples\": %ld, \"heads\": %ld, \"length\": %ld, \"size\": %ld, "
      "\"window\": %ld, \"product_gflops\": %.1f, \"forward_us\": %.1f, \"forward_share\": %.3f, "
      "\"forward_libtorch_times\": %.2f, \"backward_us\": %.1f, \"backward_share\": %.3f, "
      "\"backward_libtorch_times\": %.2f}\n",
      at::toString(type), s.samples, s.heads, s.length, s.size, s.window, 1e-9 * peak,
      1e6 * seconds.at("forward"), 4 * flops / seconds.at("forward") / peak,
      seconds.at("libtorch forward") / seconds.at("forward"), 1e6 * seconds.at("backward"),
      10 * flops / seconds.at("backward") / peak,
      seconds.at("libtorch backward") / seconds.at("backward"));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  // Blocks are kept, as they are in training: fresh pages would be most of a short call.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  at::set_num_threads(1);
  const at::NoGradGuard no_grad;
  const int repeats = argc > 1 ? std::atoi(argv[1]) : 15;
  for (const int64_t size : {32, 64, 128}) measure({1, 1, 4096, size}, at::kFloat, repeats);
  measure({1, 1, 8192, 64, 1024, true}, at::kFloat, std::max(1, repeats / 5));
  measure({1, 1, 4096, 64}, at::kBFloat16, repeats);
  for (const int64_t length : {64, 128, 256, 512}) {
    for (const int64_t size : {8, 16, 24, 32, 64, 80, 128, 256}) {
      measure({4, 4, length, size}, at::kFloat, 3 * repeats);
    }
  }
  for (const int64_t size : {8, 16, 64}) measure({4, 4, 256, size}, at::kDouble, 3 * repeats);
  for (const int64_t size : {16, 64}) measure({4, 4, 256, size}, at::kBFloat16, 3 * repeats);
  return 0;
}
