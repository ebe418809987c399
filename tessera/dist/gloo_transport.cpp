#include "tessera/dist/gloo_transport.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/dist/local_address.h"
#include "tessera/dist/process_group_impl.h"

namespace tessera {
namespace {

using Clock = MessageTransport::Clock;
using std::chrono::milliseconds;

milliseconds left_until(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
  return std::max(left, milliseconds(1));  // zero means "no limit" to c10d
}

std::vector<uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

// The first line of an exception of c10d, without the stack of calls below it.
std::string first_line(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch_error ? torch_error->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
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

  void abort() override {
    work_->abort();
  }

 private:
  const c10::intrusive_ptr<c10d::Work> work_;
};

class GlooTransport : public MessageTransport {
 public:
  GlooTransport(c10::intrusive_ptr<c10d::Store> store, c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo)
      : store_(std::move(store)), gloo_(std::move(gloo)) {}

  std::unique_ptr<Request> send(
      const std::byte* data, int64_t bytes, int world_rank, int32_t tag) override {
    return started([&](std::vector<at::Tensor>& tensors) {
      return gloo_->send(tensors, world_rank, tag);
    }, data, bytes);
  }

  std::unique_ptr<Request> recv(
      std::byte* data, int64_t bytes, int world_rank, int32_t tag) override {
    return started([&](std::vector<at::Tensor>& tensors) {
      return gloo_->recv(tensors, world_rank, tag);
    }, data, bytes);
  }

 private:
  // A link that is closed already throws when the message is posted; the request then tells it.
  struct Broken : Request {
    explicit Broken(std::string why) : why(std::move(why)) {}
    void wait(Clock::time_point) override {
      throw Failure(why, false);
    }
    void abort() override {}
    const std::string why;
  };

  template <typename Post>
  std::unique_ptr<Request> started(const Post& post, const std::byte* data, int64_t bytes) {
    std::vector<at::Tensor> tensors = {view_of(data, bytes)};
    try {
      return std::make_unique<GlooRequest>(post(tensors));
    } catch (const std::exception& error) {
      return std::make_unique<Broken>(first_line(error));
    }
  }

  const c10::intrusive_ptr<c10d::Store> store_;
  const c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo_;
};

// c10d reports what it throws also on stderr, with stacks. The exceptions are enough.
void quieten_c10d() {
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = c10::GLOG_ERROR;
}

std::string place_of(const GlooOptions& options) {
  return options.master_addr + ":" + std::to_string(options.master_port);
}

c10::intrusive_ptr<c10d::Store> open_store(const GlooOptions& options) {
  c10d::TCPStoreOptions store_options;
  store_options.port = static_cast<uint16_t>(options.master_port);
  store_options.isServer = options.serve;
  store_options.waitWorkers = false;
  store_options.timeout = options.timeout;
  try {
    return c10::make_intrusive<c10d::TCPStore>(options.master_addr, store_options);
  } catch (const std::exception& error) {
    const std::string why = first_line(error);
    if (options.serve && why.find("EADDRINUSE") != std::string::npos) {
      throw CommError("port " + std::to_string(options.master_port) + " is in use on " +
                      options.master_addr + ": choose another with --master_port (MASTER_PORT)");
    }
    throw CommError((options.serve ? "cannot serve the meeting point " : "cannot reach rank 0 at ") +
                    place_of(options) + ": " + why);
  }
}

// All ranks write their number and wait for each other's.
void meet(const c10::intrusive_ptr<c10d::Store>& store, const GlooOptions& options) {
  const auto key = [](int rank) { return "rank/" + std::to_string(rank); };
  std::vector<std::string> keys;
  for (int rank = 0; rank < options.world; ++rank) keys.push_back(key(rank));
  try {
    store->set(key(options.rank), bytes_of("here"));
    store->wait(keys, options.timeout);
    return;
  } catch (const std::exception& error) {
    std::vector<int> missing;
    try {
      for (int rank = 0; rank < options.world; ++rank) {
        if (!store->check({key(rank)})) missing.push_back(rank);
      }
    } catch (const std::exception&) {
      missing.clear();  // the store is gone
    }
    if (missing.empty()) {
      throw CommError("lost rank 0 at " + place_of(options) + ": " + first_line(error));
    }
    throw CommError("meeting at " + place_of(options) + ": " + join_ranks(missing) +
                    " did not come within " + seconds_text(options.timeout));
  }
}

// Which job a store belongs to is told by its server, outside of the job's own keys.
void check_job(const c10::intrusive_ptr<c10d::Store>& store, const GlooOptions& options) {
  const std::string key = "tessera/job";
  try {
    if (options.serve) store->set(key, bytes_of(options.job));
    store->wait({key}, options.timeout);
    const std::vector<uint8_t> value = store->get(key);
    if (value == bytes_of(options.job)) return;
    throw CommError("the meeting point " + place_of(options) + " belongs to another job (" +
                    std::string(value.begin(), value.end()) + ", not " + options.job + ")");
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& error) {
    throw CommError("no answer from rank 0 at " + place_of(options) + ": " + first_line(error));
  }
}

}  // namespace

std::unique_ptr<MessageTransport> connect_gloo(const GlooOptions& options) {
  quieten_c10d();
  const c10::intrusive_ptr<c10d::Store> server = open_store(options);
  check_job(server, options);
  const auto store = c10::make_intrusive<c10d::PrefixStore>("tessera/" + options.job, server);
  meet(store, options);
  try {
    const auto gloo_options = c10d::ProcessGroupGloo::Options::create(options.timeout);
    gloo_options->threads = 1;  // of collectives, which are not used
    gloo_options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(
        local_address_towards(options.master_addr, options.master_port)));
    return std::make_unique<GlooTransport>(
        server, c10::make_intrusive<c10d::ProcessGroupGloo>(store, options.rank, options.world,
                                                            gloo_options));
  } catch (const std::exception& error) {
    throw CommError("connecting the " + std::to_string(options.world) + " ranks that met at " +
                    place_of(options) + ": " + first_line(error));
  }
}

}  // namespace tessera
