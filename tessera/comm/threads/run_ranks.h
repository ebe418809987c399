#pragma once

// Ranks as threads of this process: the program's embedded mode and the harness of every test that
// needs more than one rank.

#include <functional>

#include "tessera/comm/process_group.h"

namespace tessera {

struct RankOptions {
  GroupOptions group;
  /// Threads that one operator of one rank may use. Ranks outnumber cores, so one by default.
  int threads_per_rank = 1;
};

/// Runs `fn` as ranks 0 to n - 1 of a world of n threads and returns when all have ended. A rank
/// that throws ends the run: every other rank throws CommError at its next or present wait
/// ("a peer failed: rank 2: ..."), and the first failure is thrown again here, with "rank 2: "
/// before its message and the same type (types other than Tessera's, torch's and the standard ones:
/// as they are).
void run_ranks(int n, const std::function<void(const ProcessGroup& world)>& fn,
               const RankOptions& options = {});

}  // namespace tessera
