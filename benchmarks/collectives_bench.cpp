// Collectives and messages among ranks that are threads: <operation>/<ranks>/<bytes>, the whole
// tensor's bytes, wall-clock time of the slowest rank. Google Benchmark's flags apply.

#include <ATen/ATen.h>
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "tessera/comm/threads/run_ranks.h"

namespace {

using namespace tessera;
using Operation = std::function<void()>;
// One rank's operation, ready to be repeated; `bytes` is the whole tensor.
using Prepare = Operation (*)(const ProcessGroup& group, int64_t bytes);

at::Tensor floats(int64_t bytes) { return at::ones({bytes / 4}); }

Operation all_reduce(const ProcessGroup& group, int64_t bytes) {
  const at::Tensor tensor = floats(bytes);
  return [&group, tensor] {
    tensor.fill_(1);  // else the sums grow without end
    group.all_reduce({tensor}).wait();
  };
}

Operation all_gather(const ProcessGroup& group, int64_t bytes) {
  const at::Tensor full = floats(bytes), shard = floats(bytes / group.size());
  return [&group, full, shard] { group.all_gather({full}, {shard}).wait(); };
}

Operation reduce_scatter(const ProcessGroup& group, int64_t bytes) {
  const at::Tensor full = floats(bytes), shard = floats(bytes / group.size());
  return [&group, full, shard] { group.reduce_scatter({shard}, {full}).wait(); };
}

Operation all_to_all(const ProcessGroup& group, int64_t bytes) {
  const at::Tensor in = floats(bytes), out = floats(bytes);
  const std::vector<int64_t> splits(static_cast<size_t>(group.size()), bytes / 4 / group.size());
  return [&group, in, out, splits] { group.all_to_all(out, in, splits, splits).wait(); };
}

// Every rank sends to the next and receives from the one before.
Operation send_recv(const ProcessGroup& group, int64_t bytes) {
  const at::Tensor in = floats(bytes), out = floats(bytes);
  const int n = group.size(), next = (group.rank() + 1) % n, before = (group.rank() + n - 1) % n;
  return [&group, in, out, next, before] {
    Work sent = group.send(out, next, 0);
    group.recv(in, before, 0).wait();
    sent.wait();
  };
}

void collective(benchmark::State& state, Prepare prepare) {
  const auto ranks = static_cast<int>(state.range(0));
  const int64_t bytes = state.range(1);
  const int repeats = static_cast<int>(std::clamp<int64_t>((int64_t{1} << 26) / bytes, 4, 200));
  for (auto _ : state) {
    double seconds = 0;
    run_ranks(ranks, [&](const ProcessGroup& world) {
      const Operation operation = prepare(world, bytes);
      operation();
      world.barrier();
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < repeats; ++i) operation();
      world.barrier();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      if (world.rank() == 0) seconds = took.count();
    });
    state.SetIterationTime(seconds / repeats);
  }
  state.SetBytesProcessed(state.iterations() * bytes);
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(5);
  for (const int64_t ranks : {2, 4, 8}) {
    for (const int64_t bytes : {int64_t{1} << 12, int64_t{1} << 20, int64_t{1} << 24}) {
      benchmark->Args({ranks, bytes});
    }
  }
}

BENCHMARK_CAPTURE(collective, all_reduce, all_reduce)->Apply(sizes);
BENCHMARK_CAPTURE(collective, all_gather, all_gather)->Apply(sizes);
BENCHMARK_CAPTURE(collective, reduce_scatter, reduce_scatter)->Apply(sizes);
BENCHMARK_CAPTURE(collective, all_to_all, all_to_all)->Apply(sizes);
BENCHMARK_CAPTURE(collective, send_recv, send_recv)->Apply(sizes);

}  // namespace

BENCHMARK_MAIN();
