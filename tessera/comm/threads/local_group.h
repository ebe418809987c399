#pragma once

// What the members of a group of threads share: the collectives under way and the mailboxes.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "tessera/comm/process_group_impl.h"
#include "tessera/comm/threads/local_op.h"
#include "tessera/comm/threads/local_world.h"

namespace tessera {

class LocalGroup : public std::enable_shared_from_this<LocalGroup> {
 public:
  LocalGroup(std::shared_ptr<LocalWorld> world, std::vector<int> ranks);

  const std::vector<int>& ranks() const { return ranks_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  const std::shared_ptr<LocalWorld>& world() const { return world_; }

  /// Takes part in the group's next collective. `name` is the caller's name of the group. Throws
  /// CommError if another member calls something else.
  std::shared_ptr<LocalOp> publish(int member, const OpSignature& signature, LocalCall call,
                                   const std::string& name);
  /// Completes it for `member`; its tensors are let go of.
  void wait(LocalOp& op, int member, const std::string& name);
  /// `member` will not wait. Afterwards nobody touches its tensors. If `failing` (an error of its
  /// own is on its way and will end the world), the others are left to wait for that; else they
  /// fail.
  void abandon(LocalOp& op, int member, bool failing) noexcept;

  void send(int member, const at::Tensor& tensor, int peer, int64_t tag);
  Work recv(int member, at::Tensor tensor, int peer, int64_t tag, const std::string& name);

 private:
  struct Receive {
    at::Tensor tensor;
    std::atomic<bool> done{false};
    std::string error;  // written before done
  };
  struct Channel {  // messages and receives of one (sender, receiver, tag): one of the two is empty
    std::deque<at::Tensor> messages;
    std::deque<std::shared_ptr<Receive>> receives;
  };
  using ChannelKey = std::tuple<int, int, int64_t>;
  class ReceiveWork;

  void start(LocalOp& op, int member);
  void fail(LocalOp& op, const std::string& error);
  void ring_waiting(const LocalOp& op, int except, int at_most);
  std::vector<int> missing(const LocalOp& op);
  void finish_receive(Receive& receive, const at::Tensor& message, ChannelKey key);
  bool withdraw(const std::shared_ptr<Receive>& receive, ChannelKey key);

  const std::shared_ptr<LocalWorld> world_;
  const std::vector<int> ranks_;
  std::mutex mutex_;
  std::deque<std::shared_ptr<LocalOp>> open_;  // collectives that not all have published
  int64_t num_closed_ = 0;                     // the number of open_.front()
  std::vector<int64_t> next_;                  // per member: number of its next collective
  std::map<ChannelKey, Channel> channels_;
};

/// The group as `member` sees it.
std::shared_ptr<ProcessGroup::Impl> make_local_impl(std::shared_ptr<LocalGroup> group, int member,
                                                    const std::string& name);

}  // namespace tessera
