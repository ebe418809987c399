#pragma once

// The ranks of this process, whatever they then do: threads, one worker of a launcher, or one rank
// on a device.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "tessera/comm/process_group.h"
#include "tessera/config/config.h"
#include "tessera/launcher/job_secret.h"
#include "tessera/launcher/rank_page.h"
#include "tessera/launcher/worker_environment.h"

namespace tessera {

struct WorldOptions {
  int64_t thread_ranks = 1;                 // without `worker`: ranks as threads of this process
  std::optional<WorkerEnvironment> worker;  // this process is one rank of several
  JobSecret secret;                         // asked of the other workers, if it is set
};

/// Calls `rank_main` as every rank of this process, on the device and with the threads that are its
/// own, and returns when all have ended. `page`: where a worker's launcher reads, or null.
/// `on_joined`: called once a worker has met the others. Throws what a rank throws.
void run_world(const Config& config, const WorldOptions& options,
               const std::shared_ptr<RankPage>& page,
               const std::function<void(const ProcessGroup& world)>& rank_main,
               const std::function<void()>& on_joined = {});

}  // namespace tessera
