#include "tessera/dist/nccl_channel.h"

#ifdef TESSERA_WITH_NCCL

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <deque>
#include <future>
#include <mutex>
#include <thread>

#include "tessera/dist/rank_device.h"

namespace tessera {

namespace {

using WorkPointer = c10::intrusive_ptr<c10d::Work>;

struct Posted {
  NcclChannel::Operation operation;
  std::promise<WorkPointer> started;

  void run(c10d::ProcessGroupNCCL& group) {
    try {
      started.set_value(operation(group));
    } catch (...) {
      started.set_exception(std::current_exception());
    }
  }
};

}  // namespace

struct NcclChannel::State {
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> group;
  c10::Device device = c10::kCPU;
  std::mutex mutex;
  bool connecting = false;
  bool connected = false;
  std::deque<std::shared_ptr<Posted>> waiting;  // for the connection
};

NcclChannel::NcclChannel(c10::intrusive_ptr<c10d::Store> store, const std::string& key, bool sender,
                         c10::Device device, std::chrono::milliseconds timeout)
    : state_(std::make_shared<State>()) {
  const auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  options->group_name = key;
  state_->device = device;
  state_->group = c10::make_intrusive<c10d::ProcessGroupNCCL>(
      c10::make_intrusive<c10d::PrefixStore>(key, std::move(store)), sender ? 0 : 1, 2, options);
}

std::function<void()> NcclChannel::post(Operation operation) {
  const auto posted = std::make_shared<Posted>();
  posted->operation = std::move(operation);
  const std::shared_future<WorkPointer> started = posted->started.get_future().share();
  const auto wait = [started] { started.get()->wait(); };
  const std::lock_guard lock(state_->mutex);
  if (state_->connected) {
    posted->run(*state_->group);
    return wait;
  }
  state_->waiting.push_back(posted);
  if (!state_->connecting) {
    state_->connecting = true;
    // Detached: a peer that died must not keep this process from ending.
    std::thread([state = state_] { connect(state); }).detach();
  }
  return wait;
}

// The first operation connects.
void NcclChannel::connect(const std::shared_ptr<State>& state) {
  use_device(state->device);
  std::unique_lock lock(state->mutex);
  while (!state->waiting.empty()) {
    const std::shared_ptr<Posted> next = state->waiting.front();
    state->waiting.pop_front();
    lock.unlock();
    next->run(*state->group);
    lock.lock();
  }
  state->connected = true;
}

}  // namespace tessera

#endif
