// Attention over a context-parallel group of thread ranks: how even the work is, and which exchange
// of keys and values is faster.
//
//   context_bench [seq_length = 8192] [ranks = 4] [heads = 8] [kv_heads = 8] [head_size = 32]
//                 [repeats = 3]
//
// Per balance and exchange: pairs of queries and keys and thread-CPU time (forward and backward) of
// the busiest rank over the mean; seconds of a pass; the most memory of a rank.

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <vector>

#include "tessera/comm/memory.h"
#include "tessera/comm/threads/run_ranks.h"
#include "tessera/data/token_split.h"
#include "tessera/parallel/context/context_attention.h"

namespace {

using namespace tessera;

struct Shape {
  int64_t length, ranks, heads, kv_heads, size, repeats;
};

struct Measured {
  std::vector<double> pairs, cpu_seconds, seconds, peak_mib;  // [rank]
};

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double busiest_over_mean(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end()) * static_cast<double>(values.size()) /
         std::accumulate(values.begin(), values.end(), 0.0);
}

void run_rank(const Shape& shape, const std::vector<Pieces>& pieces, KeyExchange exchange,
              const ProcessGroup& world, Measured& measured) {
  const auto rank = static_cast<size_t>(world.rank());
  std::vector<std::vector<int>> alone;
  for (const int member : world.ranks()) alone.push_back({member});
  ContextAttention attention;
  attention.scale = 0.2;
  attention.inner = world.split(alone, "inner");
  attention.outer = world.alias("outer");
  attention.exchange = exchange;
  LayerContext context;
  context.rows = 1;
  context.seq_length = shape.length;
  context.pieces = {pieces};
  const int64_t tokens = shape.length / shape.ranks;
  std::vector<at::Tensor> in{at::randn({tokens, shape.heads, shape.size}),
                             at::randn({tokens, shape.kv_heads, shape.size}),
                             at::randn({tokens, shape.kv_heads, shape.size})};
  for (at::Tensor& x : in) x.set_requires_grad(true);
  std::vector<double> cpu, wall;
  for (int64_t i = 0; i <= shape.repeats; ++i) {
    world.barrier();
    reset_peak_memory(world.rank());
    const int64_t before = memory_use(world.rank()).current;
    const double cpu_begin = thread_seconds();
    const auto begin = std::chrono::steady_clock::now();
    const auto call = attention.begin(context);
    call->offer(AttentionInput::kQuery, in[0]);
    call->offer(AttentionInput::kKey, in[1]);
    call->offer(AttentionInput::kValue, in[2]);
    const at::Tensor out = call->attend();
    torch::autograd::grad({out}, in, {at::ones_like(out)});
    if (i == 0) continue;  // warm-up
    cpu.push_back(thread_seconds() - cpu_begin);
    wall.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    measured.peak_mib[rank] =
        static_cast<double>(memory_use(world.rank()).peak - before) / (1 << 20);
  }
  measured.cpu_seconds[rank] = median(cpu);
  measured.seconds[rank] = median(wall);
  measured.pairs[rank] =
      static_cast<double>(attention_work(pieces[rank], std::vector<int64_t>{shape.length}));
}

int64_t argument(int argc, char** argv, int index, int64_t otherwise) {
  return argc > index ? std::atoll(argv[index]) : otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  const Shape shape{argument(argc, argv, 1, 8192), argument(argc, argv, 2, 4),
                    argument(argc, argv, 3, 8),    argument(argc, argv, 4, 8),
                    argument(argc, argv, 5, 32),   argument(argc, argv, 6, 3)};
  std::printf("%lld tokens, %lld ranks, %lld heads, %lld kv heads of %lld, float32\n",
              static_cast<long long>(shape.length), static_cast<long long>(shape.ranks),
              static_cast<long long>(shape.heads), static_cast<long long>(shape.kv_heads),
              static_cast<long long>(shape.size));
  std::printf("%-11s %-10s %10s %10s %10s %10s\n", "balance", "exchange", "pairs", "CPU", "seconds",
              "MiB");
  const std::vector<int64_t> whole{shape.length};
  const auto ranks = static_cast<size_t>(shape.ranks);
  for (const bool head_tail : {true, false}) {
    const auto pieces = split_row(shape.length, whole, shape.ranks,
                                  head_tail ? TokenBalance::kHeadTail : TokenBalance::kContiguous);
    for (const KeyExchange exchange : {KeyExchange::kRing, KeyExchange::kAllGather}) {
      Measured measured{std::vector<double>(ranks), std::vector<double>(ranks),
                        std::vector<double>(ranks), std::vector<double>(ranks)};
      run_ranks(static_cast<int>(shape.ranks), [&](const ProcessGroup& world) {
        run_rank(shape, pieces, exchange, world, measured);
      });
      std::printf("%-11s %-10s %10.3f %10.3f %10.4f %10.1f\n",
                  head_tail ? "head_tail" : "contiguous",
                  exchange == KeyExchange::kRing ? "ring" : "allgather",
                  busiest_over_mean(measured.pairs), busiest_over_mean(measured.cpu_seconds),
                  *std::max_element(measured.seconds.begin(), measured.seconds.end()),
                  *std::max_element(measured.peak_mib.begin(), measured.peak_mib.end()));
    }
  }
  return 0;
}
