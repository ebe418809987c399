#include "tessera/comm/processes/pending_sends.h"

#include <exception>

#include "tessera/base/error.h"

namespace tessera {
namespace {

constexpr std::chrono::seconds kPatience{60};

}  // namespace

PendingSends::PendingSends() : thread_([this] { run(); }) {}

PendingSends::~PendingSends() {
  {
    std::unique_lock lock(mutex_);
    if (std::uncaught_exceptions() == 0) {
      changed_.wait_for(lock, kPatience, [&] { return queue_.empty(); });
    }
    stop_ = true;
    if (!queue_.empty()) queue_.front()->abort();
  }
  changed_.notify_all();
  thread_.join();
}

void PendingSends::add(std::shared_ptr<MessageExchange> send) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(send));
  }
  changed_.notify_all();
}

void PendingSends::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    const std::shared_ptr<MessageExchange> send = queue_.front();
    lock.unlock();
    try {
      send->wait_aside();
    } catch (const CommError&) {
    }
    lock.lock();
    queue_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace tessera
