#pragma once

// Where the processes of a job find each other: c10d's TCPStore, served by rank 0.

#include <chrono>
#include <memory>
#include <string>

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
};

class MeetingPoint {
 public:
  /// Meets all other ranks. Throws CommError: the port is busy, the store belongs to another job,
  /// ranks that did not come (named).
  explicit MeetingPoint(const MeetingOptions& options);
  ~MeetingPoint();

  const MeetingOptions& options() const { return options_; }
  void set(const std::string& key, const std::string& value);
  /// Waits until someone has set it.
  std::string get(const std::string& key);
  /// The store below, with the keys of this job only.
  c10d::Store& store();
  /// "host:port", for errors.
  std::string place() const;

 private:
  struct Store;
  void check_job();
  void wait_for_ranks();

  const MeetingOptions options_;
  std::unique_ptr<Store> store_;
};

/// What an exception of c10d says, without the stack of calls below it.
std::string first_line(const std::exception& error);

}  // namespace tessera
