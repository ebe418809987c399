// The update of Muon on dense_s, as one JSON object: on one rank its time over that of its matrix
// products alone; on eight ranks that share the storage, the processor time of each rank's update.
// One thread a rank, best of several. Run from the root of the repository.
//
//   muon_bench

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "tessera/comm/threads/run_ranks.h"
#include "tessera/config/load.h"
#include "tessera/layout/model_spec.h"
#include "tessera/layout/updates/newton_schulz_steps.h"
#include "tessera/optim/newton_schulz.h"
#include "tessera/optim/optimizers.h"

namespace {

using namespace tessera;

constexpr int kRepeats = 5;

Config dense_s() {
  ConfigResult result = load_config("benchmarks/dense_s.yaml", {"optimizer.type=Muon"});
  if (!result.ok()) std::fputs(format_issues(result.issues).c_str(), stderr);
  return std::move(result.config);
}

double now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Best seconds of an update of this rank.
double update_seconds(const Config& config, const ProcessGroup& world, clockid_t clock) {
  ParallelDims dims;
  dims.world = dims.dp_shard = world.size();
  const DeviceMesh mesh(dims, world);
  ParamTable table;
  for (const ParamSpec& spec : model_spec(config.model)) {
    if (!spec.tied_to.empty()) continue;
    ShardedParam param;
    param.name = spec.name;
    param.shape = spec.shape;
    param.role = spec.role;
    param.cuts = stored_cuts(place_parameter(spec.role, config.model, dims), spec.shape, dims);
    ShardedParam& row = table.add(std::move(param), mesh);
    row.value = at::randn(row.box.sizes);
    row.grad = at::randn(row.box.sizes);
  }
  const auto optimizer = make_optimizer(config, table, mesh);
  double best = 1e9;
  for (int i = 0; i < kRepeats; ++i) {
    world.barrier();
    const double start = now(clock);
    optimizer->step(1e-3, 0.9);
    best = std::min(best, now(clock) - start);
  }
  return best;
}

// Best seconds of the products of all its iterations.
double product_seconds(const Config& config) {
  const auto steps = newton_schulz_steps(config.optimizer);
  double best = 1e9;
  for (int i = 0; i < kRepeats; ++i) {
    double sum = 0;
    for (const ParamSpec& spec : model_spec(config.model)) {
      if (!config.optimizer.kind->needs_whole(config.optimizer,
                                              {spec.name, spec.role, spec.shape})) {
        continue;
      }
      const at::Tensor any = at::randn({1});
      const at::Tensor x = at::randn(spec.shape).to(newton_schulz_type(any)).mul_(1e-3);
      at::Tensor next = at::empty_like(x);
      const bool tall = x.size(0) > x.size(1);
      const int64_t shorter = std::min(x.size(0), x.size(1));
      at::Tensor a = at::empty({shorter, shorter}, x.options()), b = at::empty_like(a);
      const double start = now(CLOCK_MONOTONIC);
      for (size_t step = 0; step < steps.size(); ++step) {
        at::mm_out(a, tall ? x.t() : x, tall ? x : x.t());
        at::mm_out(b, a, a);
        at::mm_out(next, tall ? x : b, tall ? b : x);
      }
      sum += now(CLOCK_MONOTONIC) - start;
    }
    best = std::min(best, sum);
  }
  return best;
}

}  // namespace

int main() {
  at::set_num_threads(1);
  const Config config = dense_s();
  double alone = 0;
  run_ranks(1, [&](const ProcessGroup& world) {
    alone = update_seconds(config, world, CLOCK_MONOTONIC);
  });
  const double products = product_seconds(config);
  std::vector<double> ranks(8);
  run_ranks(8, [&](const ProcessGroup& world) {
    at::set_num_threads(1);
    ranks[static_cast<size_t>(world.rank())] =
        update_seconds(config, world, CLOCK_THREAD_CPUTIME_ID);
  });
  const auto [least, most] = std::ranges::minmax(ranks);
  std::printf(
      "{\"update\": %.4f, \"products\": %.4f, \"update_over_products\": %.3f, "
      "\"fsdp8_least\": %.4f, \"fsdp8_most\": %.4f, \"fsdp8_most_over_least\": %.3f}\n",
      alone, products, alone / products, least, most, most / least);
  return 0;
}
