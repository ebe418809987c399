#include "tessera/comm/threads/local_world.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/comm/process_group_impl.h"

namespace tessera {

LocalWorld::LocalWorld(int size, GroupOptions options) : members_(size), options_(options) {}

void LocalWorld::fail(int rank, const std::string& why) {
  {
    std::lock_guard lock(mutex_);
    if (failed_.load()) return;
    failure_ = "a peer failed: rank " + std::to_string(rank) + ": " + why;
    failed_.store(true);
  }
  for (Member& member : members_) member.bell.ring();
}

void LocalWorld::leave(int rank) {
  members_[rank].left.store(true);
  for (Member& member : members_) member.bell.ring();
}

void LocalWorld::check_peers(const std::function<std::vector<int>()>& missing,
                             const std::function<std::string()>& what) {
  if (failed_.load()) {
    std::lock_guard lock(mutex_);
    throw CommError(failure_);
  }
  std::vector<int> gone = missing();
  std::erase_if(gone, [&](int rank) { return !has_left(rank); });
  if (gone.empty()) return;
  // It may have taken part and then left since missing() looked.
  const std::vector<int> still = missing();
  std::erase_if(
      gone, [&](int rank) { return std::find(still.begin(), still.end(), rank) == still.end(); });
  if (!gone.empty()) {
    throw CommError(what() + ": " + join_ranks(gone) + " ended without taking part");
  }
}

void LocalWorld::wait(int rank, const std::function<bool()>& ready,
                      const std::function<std::vector<int>()>& missing,
                      const std::function<std::string()>& what) {
  Doorbell& bell = members_[rank].bell;
  const auto deadline = Doorbell::Clock::now() + options_.timeout;
  for (;;) {
    const uint32_t seen = bell.value();
    if (ready()) return;
    check_peers(missing, what);
    if (Doorbell::Clock::now() >= deadline) {
      const std::vector<int> silent = missing();
      throw CommError(what() + ": no answer within " + seconds_text(options_.timeout) + " from " +
                      (silent.empty() ? "the peers" : join_ranks(silent)));
    }
    bell.sleep(seen, deadline);
  }
}

}  // namespace tessera
