#include "tessera/comm/processes/meeting_point.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/comm/process_group_impl.h"
#include "tessera/comm/processes/local_address.h"
#include "tessera/launcher/hosts/reach.h"

namespace tessera {
namespace {

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

std::string text_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

// c10d reports what it throws also on stderr, with stacks. The exceptions are enough.
void quieten_c10d() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = c10::GLOG_FATAL;
  });
}

constexpr const char* kMeeting = "the meeting of all ranks";  // what a rank waits for
constexpr const char* kJobKey = "tessera/job";
constexpr const char* kNonceKey = "tessera/nonce";  // rank 0's challenge; kNoSecret: nobody asks
constexpr const char* kAnswersKey = "tessera/answers";  // how many answers were written
constexpr const char* kNoSecret = "none";
constexpr const char* kRefused = "refused";
constexpr std::chrono::milliseconds kLook{20};  // of rank 0, for answers
constexpr int kMostWarnings = 20;

std::string answer_key(int rank) { return "tessera/answer/" + std::to_string(rank); }
std::string rank_key(int rank) { return "rank/" + std::to_string(rank); }

// What a rank writes under answer_key().
struct Answer {
  std::string nonce;  // of its own
  std::string signature;
  std::string address;

  std::string text() const { return nonce + " " + signature + " " + address; }

  // Of what anybody may have written.
  static Answer of(const std::string& text) {
    Answer answer;
    std::istringstream(text.substr(0, 512)) >> answer.nonce >> answer.signature >> answer.address;
    std::erase_if(answer.address, [](unsigned char c) { return !std::isgraph(c); });
    return answer;
  }
};

std::vector<std::string> signed_parts(const char* who, const std::string& nonce,
                                      const std::string& own, int rank) {
  return {who, nonce, own, std::to_string(rank)};
}

}  // namespace

struct MeetingPoint::Store {
  c10::intrusive_ptr<c10d::Store> server;  // keys of everybody
  c10::intrusive_ptr<c10d::Store> job;     // keys of this job
  std::map<int, std::string> answers;      // that rank 0 has judged
  int64_t judged = 0;
  int warnings = 0;
};

MeetingPoint::MeetingPoint(const MeetingOptions& options)
    : options_(options),
      deadline_(Clock::now() + options.timeout),
      store_(std::make_unique<Store>()) {
  quieten_c10d();
  connect();
  const std::string nonce = exchange_nonces();
  std::string prefix = "tessera/" + options_.job;
  if (options_.secret.is_set()) {
    prefix += "/" + options_.secret.sign({"keys", options_.job, nonce});
  }
  store_->job = c10::make_intrusive<c10d::PrefixStore>(prefix, store_->server);
  if (options_.rank != 0) prove_secret(nonce);
  wait_for_ranks(nonce);
  store_->server->setTimeout(options_.timeout);
}

MeetingPoint::~MeetingPoint() = default;

std::chrono::milliseconds MeetingPoint::left() const {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now());
  return std::max(left, std::chrono::milliseconds(1));  // zero means "no limit" to c10d
}

// Rank 0 listens at one address, and c10d takes the socket; the others connect when it does.
void MeetingPoint::connect() {
  const bool serve = options_.rank == 0;
  ReachOptions place_of_zero;
  place_of_zero.what = serve ? "the meeting point of all ranks" : "rank 0";
  place_of_zero.host = options_.master_addr;
  place_of_zero.port = options_.master_port;
  place_of_zero.deadline = deadline_;
  place_of_zero.limit = seconds_text(options_.timeout);
  place_of_zero.patience = options_.patience;
  const std::string what = kMeeting;
  RankPage::Wait wait(options_.page.get(), what);
  if (!serve) wait.on(0);
  const Reached reached = serve ? listen_at(place_of_zero) : reach(place_of_zero);
  address_ = reached.address;
  c10d::TCPStoreOptions store_options;
  store_options.port = static_cast<uint16_t>(options_.master_port);
  store_options.isServer = serve;
  store_options.waitWorkers = false;
  store_options.timeout = left();
  if (serve) {
    store_options.masterListenFd = reached.descriptor;
  } else {
    ::close(reached.descriptor);  // it was there to see whether somebody listens
  }
  try {
    store_->server = c10::make_intrusive<c10d::TCPStore>(address_, store_options);
  } catch (const std::exception& error) {
    const std::string why = first_line(error);
    if (serve) throw CommError("cannot serve the meeting point " + place() + ": " + why);
    throw CommError("what listens at " + place() + " does not answer as rank 0 does: " + why);
  }
  wait.done();
}

// Which job a store belongs to, and what is to be signed, is told by its server, outside of the
// job's own keys.
std::string MeetingPoint::exchange_nonces() {
  std::string nonce = options_.secret.is_set() ? random_digits() : kNoSecret;
  std::string found;
  try {
    if (options_.rank == 0) {
      store_->server->set(kJobKey, bytes_of(options_.job));
      store_->server->set(kNonceKey, bytes_of(nonce));
    }
    store_->server->wait({kJobKey, kNonceKey}, left());
    found = text_of(store_->server->get(kJobKey));
    nonce = text_of(store_->server->get(kNonceKey));
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
  return nonce;
}

// Shows rank 0 that this rank knows the secret, and sees that rank 0 does.
void MeetingPoint::prove_secret(const std::string& nonce) {
  const bool asked = nonce != kNoSecret;
  const JobSecret& secret = options_.secret;
  if (!asked && !secret.is_set()) return;
  const std::string name = JobSecret::kVariable;
  Answer answer;
  answer.nonce = random_digits();
  answer.signature = secret.is_set()
                         ? secret.sign(signed_parts("rank", nonce, answer.nonce, options_.rank))
                         : kNoSecret;
  answer.address = local_address_towards(address_, options_.master_port);
  std::string verdict;
  try {
    store_->server->set(answer_key(options_.rank), bytes_of(answer.text()));
    store_->server->add(kAnswersKey, 1);
    const std::string key = "tessera/verdict/" + answer.nonce;
    store_->server->wait({key}, left());
    verdict = text_of(store_->server->get(key));
  } catch (const std::exception& error) {
    throw CommError("no answer from rank 0 at " + place() + ": " + first_line(error));
  }
  const std::string at = " at " + place() + " (" + address_ + ")";
  if (!asked) throw CommError(name + " is set here, and not for rank 0" + at);
  if (!secret.is_set())
    throw CommError("rank 0" + at + " asks for " + name + ", which is not set here");
  if (verdict == kRefused) {
    throw CommError("rank 0" + at + " refused this rank: " + name + " is another one there");
  }
  if (!secret.verify(signed_parts("rank 0", nonce, answer.nonce, options_.rank), verdict)) {
    throw CommError("what answers as rank 0" + at + " does not know this rank's " + name);
  }
}

// On rank 0: judges what the others answered since.
void MeetingPoint::check_answers(const std::string& nonce) {
  const int64_t written = store_->server->add(kAnswersKey, 0);
  if (written == store_->judged) return;
  store_->judged = written;
  const JobSecret& secret = options_.secret;
  for (int rank = 1; rank < options_.world; ++rank) {
    if (!store_->server->check({answer_key(rank)})) continue;
    const std::string text = text_of(store_->server->get(answer_key(rank)));
    std::string& judged = store_->answers[rank];
    if (judged == text) continue;
    judged = text;
    const Answer answer = Answer::of(text);
    const bool right =
        secret.is_set() &&
        secret.verify(signed_parts("rank", nonce, answer.nonce, rank), answer.signature);
    store_->server->set(
        "tessera/verdict/" + answer.nonce,
        bytes_of(right ? secret.sign(signed_parts("rank 0", nonce, answer.nonce, rank))
                       : kRefused));
    if (right || ++store_->warnings > kMostWarnings) continue;
    const std::string why = !secret.is_set()                ? " is set there, and not here"
                            : answer.signature == kNoSecret ? " is not set there"
                                                            : " is another one there";
    log_warning("rank " + std::to_string(rank) + " at " + answer.address +
                " was refused: " + JobSecret::kVariable + why);
  }
}

// All ranks write their number and wait for each other's.
void MeetingPoint::wait_for_ranks(const std::string& nonce) {
  const std::string what = kMeeting;
  RankPage::Wait wait(options_.page.get(), what);
  try {
    store_->job->set(rank_key(options_.rank), bytes_of("here"));
    for (int rank = 0; rank < options_.world; ++rank) {
      wait.on(rank);
      if (options_.rank != 0) {
        store_->job->wait({rank_key(rank)}, left());
        continue;
      }
      for (;;) {
        check_answers(nonce);
        if (store_->job->check({rank_key(rank)})) break;
        if (Clock::now() >= deadline_) throw CommError("no answer");
        std::this_thread::sleep_for(kLook);
      }
    }
    wait.done();
    return;
  } catch (const std::exception& error) {
    std::vector<int> missing;
    try {
      for (int rank = 0; rank < options_.world; ++rank) {
        if (!store_->job->check({rank_key(rank)})) missing.push_back(rank);
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

std::vector<std::string> MeetingPoint::exchange(const std::string& key, const std::string& own) {
  set(key + "/" + std::to_string(options_.rank), own);
  std::vector<std::string> all;
  const std::string what = key + " of all ranks";
  RankPage::Wait wait(options_.page.get(), what);
  for (int rank = 0; rank < options_.world; ++rank) {
    wait.on(rank);
    all.push_back(get(key + "/" + std::to_string(rank)));
  }
  wait.done();
  return all;
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
