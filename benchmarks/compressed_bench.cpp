// Attention over a window and chosen entries beside the dense causal kernel on the same heads,
// sizes and tokens (there with one key-value head), one thread, in CPU seconds, forward and
// backward together; both in turns, medians, a JSON object a line. `share`: of the dense kernel's
// seconds.
//
//   compressed_bench [repeats]

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <vector>

#include "tessera/nn/attention/flash_attention.h"
#include "tessera/nn/compressed/indexer.h"
#include "tessera/nn/compressed/shared_key_attention.h"

namespace {

using namespace tessera;

constexpr int64_t kLength = 4096, kWindow = 128, kChosen = 64, kRatio = 4;

double cpu_seconds(const std::function<void()>& work) {
  timespec begin{}, end{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  work();
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  return static_cast<double>(end.tv_sec - begin.tv_sec) +
         1e-9 * static_cast<double>(end.tv_nsec - begin.tv_nsec);
}

std::vector<double> medians(const std::vector<std::function<void()>>& all, int repeats) {
  std::vector<std::vector<double>> seconds(all.size());
  for (int i = -1; i < repeats; ++i) {
    for (size_t w = 0; w < all.size(); ++w) {
      const double taken = cpu_seconds(all[w]);
      if (i >= 0) seconds[w].push_back(taken);
    }
  }
  std::vector<double> made;
  for (auto& of_one : seconds) {
    std::sort(of_one.begin(), of_one.end());
    made.push_back(of_one[of_one.size() / 2]);
  }
  return made;
}

void measure(int64_t heads, int64_t size, int repeats) {
  const double scale = 1 / std::sqrt(static_cast<double>(size));
  const int64_t entries = kLength / kRatio;
  const at::Tensor q = at::randn({kLength, heads, size}).requires_grad_(true);
  SharedKeys over;
  over.window = kWindow;
  over.ratio = kRatio;
  over.scale = scale;
  over.keys_TD = at::randn({kLength, size}).requires_grad_(true);
  over.entries_BED = at::randn({1, entries, size}).requires_grad_(true);
  over.sinks_N = at::zeros({heads}).requires_grad_(true);
  const IndexScores scores{at::randn({kLength, 8, 32}), at::randn({kLength, 8}),
                           at::randn({1, entries, 32})};
  over.chosen_TK = choose_entries(scores, kChosen, kRatio, {});
  const at::Tensor grad = at::randn({kLength, heads, size});

  const at::Tensor dense_q = at::randn({1, heads, kLength, size});
  const at::Tensor key = at::randn({1, 1, kLength, size});
  const at::Tensor dense_grad = at::randn({1, heads, kLength, size});
  const AttentionScores dense{.scale = scale, .sinks = {}};
  const auto seconds =
      medians({[&] {
                 const FlashResult made = flash_forward(dense_q, key, key, dense, {});
                 flash_backward(dense_grad, dense_q, key, key, made.out, made.lse, dense, {},
                                at::empty_like(dense_q), at::empty_like(key), at::empty_like(key),
                                /*add=*/false);
               },
               [&] { shared_key_attention(q, over).backward(grad); },
               [&] { choose_entries(scores, kChosen, kRatio, {}); }},
              repeats);
  std::printf(
      "{\"heads\": %ld, \"size\": %ld, \"dense_ms\": %.1f, \"attention_ms\": %.1f, \"share\": "
      "%.3f, "
      "\"choice_ms\": %.1f}\n",
      heads, size, 1e3 * seconds[0], 1e3 * seconds[1], seconds[1] / seconds[0], 1e3 * seconds[2]);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  // Blocks are kept, as they are in training: fresh pages would be most of a short call.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  at::set_num_threads(1);
  const int repeats = argc > 1 ? std::atoi(argv[1]) : 5;
  measure(8, 64, repeats);
  measure(16, 128, repeats);
  measure(16, 512, std::max(1, repeats / 3));
  return 0;
}
