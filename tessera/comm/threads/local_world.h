#pragma once

// Ranks as threads of one process: what all groups of such a world share. Each rank has one
// doorbell on which it sleeps, whatever it waits for, so that a failure anywhere can wake
// everybody.

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/comm/doorbell.h"
#include "tessera/comm/process_group.h"

namespace tessera {

class LocalWorld {
 public:
  LocalWorld(int size, GroupOptions options);

  int size() const { return static_cast<int>(members_.size()); }

  /// `rank` failed: every rank that waits, or waits later, throws CommError naming `rank` and
  /// `why`. Only the first failure counts.
  void fail(int rank, const std::string& why);
  /// `rank` will start nothing more: whoever waits for it can give up.
  void leave(int rank);
  bool has_left(int rank) const { return members_[rank].left.load(); }

  void ring(int rank) { members_[rank].bell.ring(); }

  /// Puts `rank` to sleep until `ready()`. `missing()` gives the world ranks it waits for and has
  /// not heard of; they are named when the time is over or when one of them has left. `what` names
  /// the operation and the group. Throws CommError then, or when a rank failed.
  void wait(int rank, const std::function<bool()>& ready,
            const std::function<std::vector<int>()>& missing,
            const std::function<std::string()>& what);

 private:
  struct Member {
    Doorbell bell;
    std::atomic<bool> left{false};
  };

  void check_peers(const std::function<std::vector<int>()>& missing,
                   const std::function<std::string()>& what);

  std::vector<Member> members_;
  const GroupOptions options_;
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::string failure_;
};

/// The group of all ranks of `world` as rank `rank` sees it, one per rank, in rank order.
std::vector<ProcessGroup> local_groups(const std::shared_ptr<LocalWorld>& world,
                                       const std::string& name = "world");

}  // namespace tessera
