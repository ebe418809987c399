#include "tessera/comm/threads/local_group.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <thread>

#include "tessera/base/error.h"

namespace tessera {
namespace {

// Below this the last member to publish does everything at once: waking others costs more.
constexpr int64_t kInlineTraffic = 256 << 10;

std::string describe(const LocalOp& op, const std::string& name) {
  return detail::concat(op_name(op.signature.kind()), " (number ", op.number, ") in group ", name);
}

}  // namespace

LocalGroup::LocalGroup(std::shared_ptr<LocalWorld> world, std::vector<int> ranks)
    : world_(std::move(world)), ranks_(std::move(ranks)), next_(ranks_.size(), 0) {}

std::shared_ptr<LocalOp> LocalGroup::publish(int member, const OpSignature& signature,
                                             LocalCall call, const std::string& name) {
  std::shared_ptr<LocalOp> op;
  std::string mismatch;
  bool last = false;
  {
    std::lock_guard lock(mutex_);
    const int64_t number = next_[member]++;
    while (number >= num_closed_ + static_cast<int64_t>(open_.size())) {
      open_.push_back(
          std::make_shared<LocalOp>(size(), num_closed_ + static_cast<int64_t>(open_.size())));
    }
    op = open_[number - num_closed_];
    if (op->failed.load()) throw CommError(op->error);
    if (op->first < 0) {
      op->first = member;
      op->signature = signature;
    } else if (!(op->signature == signature)) {
      mismatch = detail::concat("group ", name, ", collective number ", number, ": rank ",
                                ranks_[op->first], " calls ", op->signature.describe(), ", rank ",
                                ranks_[member], " calls ", signature.describe());
    }
    if (mismatch.empty()) {
      op->slots[member] = {true, std::move(call)};
      last = ++op->num_published == size();
      if (last) {
        op->closed = !op->cancelled;
        open_.pop_front();  // members publish in order, so it is the front
        ++num_closed_;
      }
    }
  }
  if (!mismatch.empty()) {
    fail(*op, mismatch);
    throw CommError(mismatch);
  }
  if (last && op->closed) start(*op, member);
  return op;
}

// All have published; `member` was the last.
void LocalGroup::start(LocalOp& op, int member) {
  try {
    op.plan();
  } catch (const std::exception& error) {
    fail(op, error.what());
    throw;
  }
  if (op.signature.kind() == OpKind::kSplit) {
    for (const std::vector<int>& list : op.slots[member].call.members) {
      op.groups.push_back(std::make_shared<LocalGroup>(world_, list));
    }
  }
  op.set_ready();
  if (op.traffic() <= kInlineTraffic) {
    op.run_units();
    ring_waiting(op, member, size());
  } else {
    // The others are woken when it is done.
    const auto cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    ring_waiting(op, member, cores);
  }
}

void LocalGroup::fail(LocalOp& op, const std::string& error) {
  {
    std::lock_guard lock(mutex_);
    if (op.failed.load()) return;
    op.error = error;
    op.failed.store(true);
  }
  ring_waiting(op, -1, size());
}

void LocalGroup::ring_waiting(const LocalOp& op, int except, int at_most) {
  for (int member = 0; member < size() && at_most > 0; ++member) {
    if (member == except || !op.waiting[member].load()) continue;
    world_->ring(ranks_[member]);
    --at_most;
  }
}

std::vector<int> LocalGroup::missing(const LocalOp& op) {
  std::vector<int> result;
  std::lock_guard lock(mutex_);
  for (int member = 0; member < size(); ++member) {
    if (!op.slots[member].published) result.push_back(ranks_[member]);
  }
  return result;
}

void LocalGroup::wait(LocalOp& op, int member, const std::string& name) {
  if (!op.done()) {
    op.waiting[member].store(true);
    const auto ready = [&] {
      if (op.failed.load()) throw CommError(op.error);
      if (!op.ready()) return false;
      if (op.run_units()) ring_waiting(op, member, size());
      return op.done();
    };
    try {
      world_->wait(
          ranks_[member], ready, [&] { return missing(op); }, [&] { return describe(op, name); });
    } catch (...) {
      abandon(op, member, /*failing=*/true);
      throw;
    }
  }
  op.slots[member].call.in.clear();
  op.slots[member].call.out.clear();
}

// Either the collective can never start any more, or its units are executed to the end (they do not
// block), as others may be reading or writing this member's memory.
void LocalGroup::abandon(LocalOp& op, int member, bool failing) noexcept {
  std::string error = detail::concat("rank ", ranks_[member], " gave up ",
                                     op_name(op.signature.kind()), " number ", op.number);
  bool closed;
  {
    std::lock_guard lock(mutex_);
    closed = op.closed;
    if (!closed) op.cancelled = true;
    if (!closed && !failing && !op.failed.load()) {
      op.error = std::move(error);
      op.failed.store(true);
    }
  }
  if (!closed) {
    if (!failing) ring_waiting(op, member, size());
    return;
  }
  while (!op.done() && !op.failed.load()) {
    if (op.ready() && op.run_units()) ring_waiting(op, member, size());
    if (!op.done()) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

// --- point to point -----------------------------------------------------------------------------

void LocalGroup::finish_receive(Receive& receive, const at::Tensor& message, ChannelKey key) {
  const auto [from, to, tag] = key;
  if (receive.tensor.nbytes() != message.nbytes() ||
      receive.tensor.scalar_type() != message.scalar_type()) {
    receive.error =
        detail::concat("rank ", ranks_[from], " sends ", message.scalar_type(), " ",
                       message.sizes(), ", rank ", ranks_[to], " receives ",
                       receive.tensor.scalar_type(), " ", receive.tensor.sizes(), ", tag ", tag);
  } else if (message.nbytes() > 0) {
    std::memcpy(receive.tensor.mutable_data_ptr(), message.const_data_ptr(), message.nbytes());
  }
  receive.done.store(true);
}

void LocalGroup::send(int member, const at::Tensor& tensor, int peer, int64_t tag) {
  const ChannelKey key{member, peer, tag};
  at::Tensor copy;
  for (;;) {
    std::shared_ptr<Receive> receive;
    {
      std::lock_guard lock(mutex_);
      Channel& channel = channels_[key];
      if (!channel.receives.empty()) {
        receive = std::move(channel.receives.front());
        channel.receives.pop_front();
      } else if (copy.defined()) {
        channel.messages.push_back(std::move(copy));
        return;
      }
    }
    if (receive) {
      finish_receive(*receive, tensor, key);
      world_->ring(ranks_[peer]);
      return;
    }
    copy = tensor.detach().clone();
  }
}

bool LocalGroup::withdraw(const std::shared_ptr<Receive>& receive, ChannelKey key) {
  std::lock_guard lock(mutex_);
  return std::erase(channels_[key].receives, receive) > 0;
}

class LocalGroup::ReceiveWork : public Work::Impl {
 public:
  ReceiveWork(std::shared_ptr<LocalGroup> group, std::shared_ptr<Receive> receive, ChannelKey key,
              const std::string& name)
      : group_(std::move(group)), receive_(std::move(receive)), key_(key), name_(name) {}

  ~ReceiveWork() override { withdraw(); }

  void wait() override {
    const auto [from, to, tag] = key_;
    const int sender = group_->ranks_[from];
    try {
      group_->world_->wait(
          group_->ranks_[to], [&] { return receive_->done.load(); },
          [&] { return receive_->done.load() ? std::vector<int>{} : std::vector<int>{sender}; },
          [&] { return detail::concat("recv with tag ", tag, " in group ", name_); });
    } catch (...) {
      withdraw();
      throw;
    }
    if (!receive_->error.empty()) throw CommError(receive_->error);
  }

 private:
  // Afterwards nobody writes to the tensor.
  void withdraw() {
    if (withdrawn_ || receive_->done.load()) return;
    withdrawn_ = group_->withdraw(receive_, key_);
    while (!withdrawn_ && !receive_->done.load()) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  const std::shared_ptr<LocalGroup> group_;
  const std::shared_ptr<Receive> receive_;
  const ChannelKey key_;
  const std::string name_;
  bool withdrawn_ = false;
};

Work LocalGroup::recv(int member, at::Tensor tensor, int peer, int64_t tag,
                      const std::string& name) {
  const ChannelKey key{peer, member, tag};
  auto receive = std::make_shared<Receive>();
  receive->tensor = std::move(tensor);
  at::Tensor message;
  {
    std::lock_guard lock(mutex_);
    Channel& channel = channels_[key];
    if (channel.messages.empty()) {
      channel.receives.push_back(receive);
    } else {
      message = std::move(channel.messages.front());
      channel.messages.pop_front();
    }
  }
  if (message.defined()) {
    finish_receive(*receive, message, key);
    if (!receive->error.empty()) throw CommError(receive->error);
    return {};
  }
  return Work(std::make_shared<ReceiveWork>(shared_from_this(), std::move(receive), key, name));
}

}  // namespace tessera
