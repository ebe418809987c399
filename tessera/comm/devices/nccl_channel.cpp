#include "tessera/comm/devices/nccl_channel.h"

#ifdef TESSERA_WITH_NCCL

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "tessera/comm/devices/rank_device.h"

namespace tessera {

namespace {

using WorkPointer = c10::intrusive_ptr<c10d::Work>;

struct Posted {
  NcclChannel::Operation operation;
  int64_t number = 0;  // in the lane
  std::promise<WorkPointer> started;
  std::optional<c10::Event> before;  // of a waiting one: what its tensors are made by

  void run(c10d::ProcessGroupNCCL& group, OperationWatch::Lane& lane) {
    try {
      const WorkPointer work = operation(group);
      lane.started(number, [work] { return work->isCompleted(); });
      started.set_value(work);
    } catch (...) {
      lane.started(number, [] { return true; });
      started.set_exception(std::current_exception());
    }
  }
};

}  // namespace

struct NcclChannel::State {
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> group;
  std::shared_ptr<OperationWatch::Lane> lane;
  c10::Device device = c10::kCPU;
  std::mutex mutex;
  bool connecting = false;
  bool connected = false;
  std::deque<std::shared_ptr<Posted>> waiting;  // for the connection
};

NcclChannel::NcclChannel(c10::intrusive_ptr<c10d::Store> store,
                         std::shared_ptr<OperationWatch::Lane> lane, bool sender,
                         c10::Device device, std::chrono::milliseconds timeout)
    : state_(std::make_shared<State>()) {
  const auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  options->group_name = lane->key;
  state_->device = device;
  state_->group = c10::make_intrusive<c10d::ProcessGroupNCCL>(
      c10::make_intrusive<c10d::PrefixStore>(lane->key, std::move(store)), sender ? 0 : 1, 2,
      options);
  state_->lane = std::move(lane);
}

std::function<void()> NcclChannel::post(std::string what, Operation operation) {
  const auto posted = std::make_shared<Posted>();
  posted->operation = std::move(operation);
  posted->number = state_->lane->begin(std::move(what));
  const std::shared_future<WorkPointer> started = posted->started.get_future().share();
  const auto wait = [started] { started.get()->wait(); };
  const std::lock_guard lock(state_->mutex);
  if (state_->connected) {
    posted->run(*state_->group, *state_->lane);
    return wait;
  }
  const c10::impl::VirtualGuardImpl streams(state_->device.type());
  posted->before.emplace(state_->device.type()).record(streams.getStream(state_->device));
  state_->waiting.push_back(posted);
  if (!state_->connecting) {
    state_->connecting = true;
    // Detached: a peer that died must not keep this process from ending.
    std::thread([state = state_] { connect(state); }).detach();
  }
  return wait;
}

// The first operation connects. Each starts on a stream that waits for what was launched before it
// was posted, not for what is launched while the connection is made.
void NcclChannel::connect(const std::shared_ptr<State>& state) {
  use_device(state->device);
  const c10::Stream stream =
      c10::impl::VirtualGuardImpl(state->device.type()).getNewStream(state->device);
  const c10::StreamGuard current(stream);
  std::unique_lock lock(state->mutex);
  while (!state->waiting.empty()) {
    const std::shared_ptr<Posted> next = state->waiting.front();
    state->waiting.pop_front();
    lock.unlock();
    next->before->block(stream);
    next->run(*state->group, *state->lane);
    lock.lock();
  }
  state->connected = true;
}

}  // namespace tessera

#endif
