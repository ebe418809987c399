#include "tessera/comm/processes/gloo_transport.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/comm/processes/local_address.h"

namespace tessera {
namespace {

using Clock = MessageTransport::Clock;
using std::chrono::milliseconds;

milliseconds left_until(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
  return std::max(left, milliseconds(1));  // zero means "no limit" to c10d
}

at::Tensor view_of(const std::byte* data, int64_t bytes) {
  return at::from_blob(const_cast<std::byte*>(data), {bytes}, at::kByte);
}

class GlooRequest : public MessageTransport::Request {
 public:
  explicit GlooRequest(c10::intrusive_ptr<c10d::Work> work) : work_(std::move(work)) {}

  void wait(Clock::time_point deadline) override {
    try {
      if (work_->wait(left_until(deadline))) return;
    } catch (const std::exception& error) {
      throw MessageTransport::Failure(first_line(error), Clock::now() >= deadline);
    }
    throw MessageTransport::Failure("given up", false);
  }

  void abort() override { work_->abort(); }

 private:
  const c10::intrusive_ptr<c10d::Work> work_;
};

// A link that is closed throws when a message is posted; the request tells it.
class BrokenRequest : public MessageTransport::Request {
 public:
  explicit BrokenRequest(std::string why) : why_(std::move(why)) {}
  void wait(Clock::time_point) override { throw MessageTransport::Failure(why_, false); }
  void abort() override {}

 private:
  const std::string why_;
};

class GlooTransport : public MessageTransport {
 public:
  GlooTransport(std::shared_ptr<MeetingPoint> meeting,
                c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo)
      : meeting_(std::move(meeting)), gloo_(std::move(gloo)) {}

  std::unique_ptr<Request> send(const std::byte* data, int64_t bytes, int world_rank,
                                int32_t tag) override {
    return started(data, bytes, [&](std::vector<at::Tensor>& tensors) {
      return gloo_->send(tensors, world_rank, tag);
    });
  }

  std::unique_ptr<Request> recv(std::byte* data, int64_t bytes, int world_rank,
                                int32_t tag) override {
    return started(data, bytes, [&](std::vector<at::Tensor>& tensors) {
      return gloo_->recv(tensors, world_rank, tag);
    });
  }

 private:
  template <typename Post>
  std::unique_ptr<Request> started(const std::byte* data, int64_t bytes, const Post& post) {
    std::vector<at::Tensor> tensors = {view_of(data, bytes)};
    try {
      return std::make_unique<GlooRequest>(post(tensors));
    } catch (const std::exception& error) {
      return std::make_unique<BrokenRequest>(first_line(error));
    }
  }

  const std::shared_ptr<MeetingPoint> meeting_;  // its server may be in this process
  const c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo_;
};

}  // namespace

std::unique_ptr<MessageTransport> connect_gloo(std::shared_ptr<MeetingPoint> meeting) {
  const MeetingOptions& at = meeting->options();
  try {
    const auto options = c10d::ProcessGroupGloo::Options::create(at.timeout);
    options->threads = 1;  // of Gloo's own collectives, which are not used
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(
        local_address_towards(at.master_addr, at.master_port)));
    const auto store = c10::intrusive_ptr<c10d::Store>::reclaim_copy(&meeting->store());
    auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, at.rank, at.world, options);
    return std::make_unique<GlooTransport>(meeting, std::move(gloo));
  } catch (const std::exception& error) {
    throw CommError("connecting the " + std::to_string(at.world) + " ranks that met at " +
                    meeting->place() + ": " + first_line(error));
  }
}

}  // namespace tessera
