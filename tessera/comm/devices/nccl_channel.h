#pragma once

// One direction between two ranks over NCCL. It has a communicator of its own, so that two ranks
// that send to each other at once do not wait for each other. Connecting waits for the other side's
// first message and happens on a thread of the channel: posting never blocks.

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "tessera/comm/operation_watch.h"

namespace c10d {
class ProcessGroupNCCL;
class Store;
class Work;
}  // namespace c10d

namespace tessera {

class NcclChannel {
 public:
  using Operation =
      std::function<c10::intrusive_ptr<c10d::Work>(c10d::ProcessGroupNCCL& two_ranks)>;

  /// Rank 0 of the two sends, rank 1 receives. `lane` watches over what is posted; its key is what
  /// both call the channel in the store. `store` is this channel's alone: connecting holds it.
  NcclChannel(c10::intrusive_ptr<c10d::Store> store, std::shared_ptr<OperationWatch::Lane> lane,
              bool sender, c10::Device device, std::chrono::milliseconds timeout);

  /// Operations run in the order of posting, each after what the current stream has been given. The
  /// result, called once, waits until this one is posted and makes the current stream wait for it;
  /// it throws what went wrong. `what` names the operation.
  std::function<void()> post(std::string what, Operation operation);

 private:
  struct State;
  static void connect(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
};

}  // namespace tessera
