#pragma once

// The workers of this node: started together, watched, ended together.

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/launcher/blame.h"
#include "tessera/launcher/subprocess.h"

namespace tessera {

struct Worker {
  int rank = 0;        // in the world
  Subprocess program;  // its output is the worker's log file
  bool echo = false;   // copy its log to standard output
  std::string prefix;  // before each copied line
};

/// Why a run ended early.
struct WorkerFailure {
  int rank = -1;              // -1: no single worker
  int exit_code = 0;          // what the launcher returns: the worker's, 3 after a signal
  std::string report;         // for the user: who, why, the end of its log
  bool is_root_cause = true;  // false: it ended because a peer or a link did
};

/// The launchers of the other nodes. All calls return at once.
class NodeLink {
 public:
  virtual ~NodeLink() = default;
  /// Tells the others why the run ends.
  virtual void send_failure(const WorkerFailure& failure) = 0;
  /// Tells the others that rank `first` of this node lost a peer, and what the ranks of this node
  /// do: the launcher of node 0 finds out whose fault it is.
  virtual void send_states(int first, const RankStates& states) = 0;
  /// A failure elsewhere, or a launcher that is gone. One that is no root cause has no report yet:
  /// this node shall end, too, and say what its ranks do.
  virtual std::optional<WorkerFailure> poll() = 0;
  /// What the other nodes have told of their ranks.
  virtual const RankStates& states() const = 0;
  /// Whether this is node 0, which names the rank that is at fault.
  virtual bool decides() const = 0;
  /// Tells the others that this node ended as it should.
  virtual void send_done() = 0;
  /// Whether all others have said so, or failed.
  virtual bool others_done() const = 0;
  /// Of node 0, after a failure: whether the run starts again.
  virtual void send_verdict(bool again) = 0;
  /// Of the others: waits for what node 0 says; none when it is gone, or says nothing in time.
  virtual std::optional<bool> await_verdict(std::chrono::milliseconds most) = 0;
};

struct WorkerGroupOptions {
  std::string launcher = "msrun";          // who writes the lines
  std::chrono::milliseconds settle{1000};  // after a failure, for the others to report and to end
  std::chrono::milliseconds terminate{4000};  // after SIGTERM, before SIGKILL
  std::chrono::milliseconds leave{10000};     // after a forwarded signal, from the first end on
  /// After a forwarded signal, until what still runs is killed; 0: no limit. With it, SIGUSR1 is a
  /// signal of the user, too.
  std::chrono::milliseconds grace{0};
  /// A worker that makes no progress in a step for so long, and waits for no other, counts as lost;
  /// 0: no limit.
  std::chrono::milliseconds standstill{0};
  /// Stays when the workers of this node have ended well, until all nodes have: when another one
  /// fails, the run starts again with this node.
  bool stays_for_others = false;
  /// Called once, when a worker has finished the first step of this start: the number of that step.
  std::function<void(int64_t)> on_first_step{};
};

/// How the workers of this node ended.
struct GroupOutcome {
  int exit_code = 0;
  int user_signal = 0;                   // that was forwarded; 0: none
  std::optional<WorkerFailure> failure;  // with its whole report
  std::chrono::system_clock::time_point failed_at{};
  int64_t reached = 0;  // the last step that a worker of this node had finished; 0: none, unknown
};

/// Starts the workers (none on a spare node, which waits for the others) and waits for all of them.
/// The exit code is 0 when all ended well; 128 + n after signal n of the user, which is forwarded
/// once, while a second one kills; else that of the first worker that failed. A worker that lost a
/// peer is not named, but the one to which the chain of waits leads (blame.h). When one fails all
/// others end within settle + terminate. Throws ConfigError when a worker does not start.
GroupOutcome run_worker_group(const std::vector<Worker>& workers, const WorkerGroupOptions& options,
                              NodeLink* link = nullptr);

}  // namespace tessera
