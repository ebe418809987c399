#include "tessera/train/run_world.h"

#include <ATen/Parallel.h>

#include <chrono>
#include <string>
#include <vector>

#include "tessera/base/log.h"
#include "tessera/comm/devices/rank_device.h"
#include "tessera/comm/processes/process_world.h"
#include "tessera/comm/threads/run_ranks.h"
#include "tessera/launcher/hosts/host_facts.h"

namespace tessera {
namespace {

using RankMain = std::function<void(const ProcessGroup& world)>;

// `facts` are those of the hosts of all processes.
at::Device device_of_rank(const Config& config, const WorldOptions& options,
                          const std::vector<HostFacts>& facts) {
  const int first_rank = options.worker ? static_cast<int>(options.worker->rank) : 0;
  const RankDevice chosen = choose_device(config.context.device_target, facts, first_rank,
                                          static_cast<int>(options.thread_ranks));
  if (first_rank == 0 && !chosen.choice.empty()) log_info(chosen.choice);
  return chosen.device;
}

void run_worker(const Config& config, const WorldOptions& options,
                const std::shared_ptr<RankPage>& page, const RankMain& rank_main,
                const std::function<void()>& on_joined) {
  const WorkerEnvironment& worker = *options.worker;
  ProcessWorldOptions world;
  world.rank = static_cast<int>(worker.rank);
  world.world = static_cast<int>(worker.world);
  world.master_addr = worker.master_addr;
  world.master_port = worker.master_port;
  world.job = worker.job_id;
  if (worker.generation > 0) world.job += ".start" + std::to_string(worker.generation);
  world.timeout_seconds = config.training.timeout_seconds;
  world.secret = options.secret;
  world.page = page;
  world.choose_device = [&](const std::vector<HostFacts>& facts) {
    const at::Device device = device_of_rank(config, options, facts);
    if (device.is_cpu()) at::set_num_threads(threads_or(fair_threads(facts, world.rank)));
    return device;
  };
  if (page) page->set_work(RankWork::kMeets);
  const ProcessGroup joined = join_process_world(world);
  if (on_joined) on_joined();
  rank_main(joined);
}

void run_threads(const Config& config, const WorldOptions& options, const RankMain& rank_main) {
  const HostFacts host = own_host_facts(cuda_devices());
  const at::Device device = device_of_rank(config, options, {host});
  if (device.is_cpu()) {
    RankOptions ranks;
    ranks.threads_per_rank =
        threads_or(usable_cores(host) / static_cast<int>(options.thread_ranks));
    ranks.group.timeout =
        std::chrono::milliseconds(static_cast<int64_t>(1e3 * config.training.timeout_seconds));
    run_ranks(static_cast<int>(options.thread_ranks), rank_main, ranks);
  } else {
    ProcessWorldOptions alone;
    alone.choose_device = [&](const std::vector<HostFacts>&) { return device; };
    rank_main(join_process_world(alone));
  }
}

}  // namespace

void run_world(const Config& config, const WorldOptions& options,
               const std::shared_ptr<RankPage>& page, const RankMain& rank_main,
               const std::function<void()>& on_joined) {
  if (options.worker) {
    run_worker(config, options, page, rank_main, on_joined);
  } else {
    run_threads(config, options, rank_main);
  }
}

}  // namespace tessera
