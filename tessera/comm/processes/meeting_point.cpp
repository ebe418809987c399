#include "tessera/comm/processes/meeting_point.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cstdlib>
#include <mutex>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/comm/process_group_impl.h"

namespace tessera {
namespace {

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

std::string text_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

// c10d reports what it throws also on stderr, with stacks. The exceptions are enough.
void quieten_c10d() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = c10::GLOG_ERROR;
  });
}

}  // namespace

struct MeetingPoint::Store {
  c10::intrusive_ptr<c10d::Store> server;  // keys of everybody
  c10::intrusive_ptr<c10d::Store> job;     // keys of this job
};

MeetingPoint::MeetingPoint(const MeetingOptions& options)
    : options_(options), store_(std::make_unique<Store>()) {
  quieten_c10d();
  const bool serve = options_.rank == 0;
  c10d::TCPStoreOptions store_options;
  store_options.port = static_cast<uint16_t>(options_.master_port);
  store_options.isServer = serve;
  store_options.waitWorkers = false;
  store_options.timeout = options_.timeout;
  try {
    store_->server = c10::make_intrusive<c10d::TCPStore>(options_.master_addr, store_options);
  } catch (const std::exception& error) {
    const std::string why = first_line(error);
    if (serve && why.find("EADDRINUSE") != std::string::npos) {
      throw CommError("port " + std::to_string(options_.master_port) + " is in use on " +
                      options_.master_addr + ": choose another with --master_port (MASTER_PORT)");
    }
    throw CommError((serve ? "cannot serve the meeting point " : "cannot reach rank 0 at ") +
                    place() + ": " + why);
  }
  check_job();
  store_->job = c10::make_intrusive<c10d::PrefixStore>("tessera/" + options_.job, store_->server);
  wait_for_ranks();
}

MeetingPoint::~MeetingPoint() = default;

// Which job a store belongs to is told by its server, outside of the job's own keys.
void MeetingPoint::check_job() {
  const std::string key = "tessera/job";
  std::string found;
  try {
    if (options_.rank == 0) store_->server->set(key, bytes_of(options_.job));
    store_->server->wait({key}, options_.timeout);
    found = text_of(store_->server->get(key));
  } catch (const std::exception& error) {
    throw CommError("no answer from rank 0 at " + place() + ": " + first_line(error));
  }
  if (found != options_.job) {
    const auto named = [](const std::string& job) {
      return job.empty() ? "one without a name" : job;
    };
    throw CommError("the meeting point " + place() + " belongs to another job (" + named(found) +
                    ", not " + named(options_.job) +
                    "): choose another port with --master_port (MASTER_PORT)");
  }
}

// All ranks write their number and wait for each other's.
void MeetingPoint::wait_for_ranks() {
  const auto key = [](int rank) { return "rank/" + std::to_string(rank); };
  std::vector<std::string> keys;
  for (int rank = 0; rank < options_.world; ++rank) keys.push_back(key(rank));
  try {
    store_->job->set(key(options_.rank), bytes_of("here"));
    store_->job->wait(keys, options_.timeout);
    return;
  } catch (const std::exception& error) {
    std::vector<int> missing;
    try {
      for (int rank = 0; rank < options_.world; ++rank) {
        if (!store_->job->check({key(rank)})) missing.push_back(rank);
      }
    } catch (const std::exception&) {
      missing.clear();  // the store is gone
    }
    if (missing.empty()) throw CommError("lost rank 0 at " + place() + ": " + first_line(error));
    throw CommError("meeting at " + place() + ": " + join_ranks(missing) + " did not come within " +
                    seconds_text(options_.timeout));
  }
}

void MeetingPoint::set(const std::string& key, const std::string& value) {
  try {
    store_->job->set(key, bytes_of(value));
  } catch (const std::exception& error) {
    throw CommError("lost rank 0 at " + place() + ": " + first_line(error));
  }
}

std::string MeetingPoint::get(const std::string& key) {
  try {
    store_->job->wait({key}, options_.timeout);
    return text_of(store_->job->get(key));
  } catch (const std::exception& error) {
    throw CommError("waiting for " + key + " at " + place() + ": " + first_line(error));
  }
}

c10d::Store& MeetingPoint::store() { return *store_->job; }

std::string MeetingPoint::place() const {
  return options_.master_addr + ":" + std::to_string(options_.master_port);
}

std::string first_line(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch_error ? torch_error->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace tessera
