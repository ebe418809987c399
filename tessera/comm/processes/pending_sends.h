#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "tessera/comm/processes/message_exchange.h"

namespace tessera {

/// Sends that nobody waits for: a thread waits for them, one after the other, and lets go of their
/// memory. A send that fails is dropped; whoever depends on that peer notices by itself.
class PendingSends {
 public:
  PendingSends();
  /// Waits a while for what is under way, not at all while an exception unwinds.
  ~PendingSends();
  void add(std::shared_ptr<MessageExchange> send);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<MessageExchange>> queue_;  // the front is being waited for
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tessera
