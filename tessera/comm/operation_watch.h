#pragma once

// Says which rank is missing when an operation between devices does not complete. No call on the
// host waits for such an operation, so no call can report that it hangs. An operation hangs because
// some rank, often on another host, has not started it. Every rank therefore counts, in its own
// memory, the operations that it starts in each group, and a thread of the rank looks at intervals
// whether the oldest operation has completed. When one takes too long, every rank writes its counts
// into the store. The ranks that wait read there which rank has started fewer operations than they
// have.

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace c10d {
class Store;
}

namespace tessera {

class OperationWatch {
 public:
  using Clock = std::chrono::steady_clock;
  using Milliseconds = std::chrono::milliseconds;

  struct Operation {
    int64_t number = 0;  // in its lane, from 1
    std::string what;    // "all_reduce in group tp"
    Clock::time_point since;
    std::function<bool()> done;  // empty: not started yet
  };

  /// One group, or one direction between two ranks: what starts here completes in this order.
  class Lane {
   public:
    Lane(std::string key, std::vector<int> members)
        : key(std::move(key)), members(std::move(members)) {}

    /// Before an operation starts, which may take until the others come. Returns its number.
    int64_t begin(std::string what);
    /// It has started. `done` says, at once and to any thread, whether it is complete.
    void started(int64_t number, std::function<bool()> done);

    int64_t begun() const;
    std::optional<Operation> oldest();

    const std::string key;           // without spaces; the same at all members
    const std::vector<int> members;  // world ranks

   private:
    void forget_done();

    mutable std::mutex mutex_;
    int64_t begun_ = 0;
    std::deque<Operation> open_;
  };

  struct Options {
    int rank = 0;  // of the world
    Milliseconds timeout{std::chrono::minutes(10)};
    /// How long to wait for the counts of others after that; rank 0, whose process serves the
    /// store, half as long again.
    Milliseconds grace{std::chrono::seconds(20)};
    /// Gets "all_reduce in group tp: no answer within 600 s from rank 3", once, from the thread of
    /// the watch.
    std::function<void(const std::string&)> report;
  };

  /// `store` is used by the watch alone, so that nobody's waiting holds it up.
  OperationWatch(c10::intrusive_ptr<c10d::Store> store, Options options);
  ~OperationWatch();
  OperationWatch(const OperationWatch&) = delete;
  OperationWatch& operator=(const OperationWatch&) = delete;

  std::shared_ptr<Lane> lane(std::string key, std::vector<int> members);

 private:
  using Lanes = std::vector<std::shared_ptr<Lane>>;

  void run();
  bool look(const Lanes& lanes);
  void answer(const Lanes& lanes);
  std::string missing(const Lane& lane, const Operation& late);
  bool pause(Milliseconds duration);

  const c10::intrusive_ptr<c10d::Store> store_;
  const Options options_;
  const Milliseconds tick_;
  bool answered_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ending_ = false;
  Lanes lanes_;
  std::thread thread_;
};

}  // namespace tessera
