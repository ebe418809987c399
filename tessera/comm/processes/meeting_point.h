#pragma once

// Where the processes of a job find each other: c10d's TCPStore, served by rank 0.

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tessera/launcher/job_secret.h"
#include "tessera/launcher/rank_page.h"

namespace c10d {
class Store;
}

namespace tessera {

struct MeetingOptions {
  int rank = 0;
  int world = 1;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;
  std::string job;  // part of every key, so that two jobs never meet in one store
  std::chrono::milliseconds timeout{std::chrono::minutes(10)};
  std::chrono::milliseconds patience{5000};  // before it says why rank 0 is not reached yet
  JobSecret secret;                          // asked of every rank, if it is set
  std::shared_ptr<RankPage> page;            // tells the launcher whom this rank waits for, or null
};

class MeetingPoint {
 public:
  /// Meets all other ranks. Rank 0 listens at the address that `master_addr` names, and at no
  /// other. All of it takes `timeout` at most. Throws CommError: the port is busy, rank 0 is not
  /// reached (why), the store belongs to another job, a rank has another secret, ranks that did not
  /// come (named).
  explicit MeetingPoint(const MeetingOptions& options);
  ~MeetingPoint();

  const MeetingOptions& options() const { return options_; }
  void set(const std::string& key, const std::string& value);
  /// Waits until someone has set it.
  std::string get(const std::string& key);
  /// What each rank says of itself under `key`, by rank; collective.
  std::vector<std::string> exchange(const std::string& key, const std::string& own);
  /// The store below, with the keys of this job only.
  c10d::Store& store();
  /// "host:port", for errors.
  std::string place() const;

 private:
  struct Store;
  using Clock = std::chrono::steady_clock;

  void connect();
  std::chrono::milliseconds left() const;
  std::string exchange_nonces();
  void prove_secret(const std::string& nonce);
  void check_answers(const std::string& nonce);
  void wait_for_ranks(const std::string& nonce);

  const MeetingOptions options_;
  const Clock::time_point deadline_;  // of the meeting
  std::string address_;               // numeric, of rank 0
  std::unique_ptr<Store> store_;
};

/// What an exception of c10d says, without the stack of calls below it.
std::string first_line(const std::exception& error);

}  // namespace tessera
