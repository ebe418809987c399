#include "tessera/launcher/worker_group.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstring>
#include <memory>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/launcher/signal_queue.h"
#include "tessera/launcher/worker_log.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kPollMilliseconds = 50;

struct Running {
  const Worker* worker = nullptr;
  pid_t pid = -1;
  bool ended = false;
  bool failed = false;
  std::unique_ptr<LogEcho> echo;
};

std::string meaning(int exit_code) {
  switch (exit_code) {
    case 1: return "an internal error";
    case 2: return "the file, the flags or the data are wrong";
    case 3: return "a peer or a link failed";
    case 4: return "a checkpoint";
    case 5: return "a loss or a norm that is not finite";
    case 6: return "parity differs";
    case 127: return "the program did not start";
    default:
      return exit_code > 128 ? std::string("ended early by ") + ::strsignal(exit_code - 128)
                             : "a foreign code";
  }
}

std::string indented(const std::string& text) {
  std::string result = "    ";
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "    ";
  }
  return result;
}

class Group {
 public:
  Group(const std::vector<Worker>& workers, const WorkerGroupOptions& options, NodeLink* link)
      : options_(options), link_(link) {
    try {
      for (const Worker& worker : workers) {
        Running running;
        running.worker = &worker;
        running.pid = start(worker.program);
        if (worker.echo) {
          running.echo = std::make_unique<LogEcho>(worker.program.output, worker.prefix);
        }
        running_.push_back(std::move(running));
      }
    } catch (...) {
      abandon();
      throw;
    }
  }

  // Also the way out of an exception: nobody is left behind.
  ~Group() { abandon(); }

  int wait() {
    while (alive() > 0) {
      pollfd wake{signals_.descriptor(), POLLIN, 0};
      ::poll(&wake, 1, kPollMilliseconds);
      handle_signals();
      reap();
      for (Running& running : running_) {
        if (running.echo && !running.ended) running.echo->poll();
      }
      listen_to_other_nodes();
      act_on_time();
    }
    return conclude();
  }

 private:
  enum class Phase { kRunning, kSettling, kTerminating, kKilled };

  int alive() const {
    int count = 0;
    for (const Running& running : running_) count += running.ended ? 0 : 1;
    return count;
  }

  void signal_all(int number) {
    for (const Running& running : running_) {
      if (!running.ended) ::kill(-running.pid, number);
    }
  }

  void abandon() {
    signal_all(SIGKILL);
    for (Running& running : running_) {
      if (!running.ended) ::waitpid(running.pid, nullptr, 0);
      running.ended = true;
    }
  }

  void handle_signals() {
    while (const std::optional<int> number = signals_.next()) {
      if (*number == SIGCHLD) continue;
      if (user_signal_ == 0) {
        user_signal_ = *number;
        log_info(options_.launcher + ": " + ::strsignal(*number) +
                 ": the workers end after their current step; once more kills them");
        signal_all(*number == SIGHUP ? SIGTERM : *number);
      } else {
        signal_all(SIGKILL);
      }
    }
  }

  void reap() {
    for (Running& running : running_) {
      if (running.ended) continue;
      siginfo_t info{};
      const int got =
          ::waitid(P_PID, static_cast<id_t>(running.pid), &info, WEXITED | WNOHANG | WNOWAIT);
      if (got != 0 || info.si_pid == 0) continue;
      ::kill(-running.pid, SIGKILL);  // what the worker itself started
      int status = 0;
      ::waitpid(running.pid, &status, 0);
      running.ended = true;
      judge(running, status);
      if (user_signal_ != 0 && phase_ == Phase::kRunning) {
        phase_ = Phase::kTerminating;
        deadline_ = Clock::now() + options_.leave;
      }
    }
  }

  void judge(Running& running, int status) {
    const bool by_signal = WIFSIGNALED(status);
    const int number = by_signal ? WTERMSIG(status) : WEXITSTATUS(status);
    if (!by_signal && number == 0) return;
    if (user_signal_ != 0) {
      const int asked = user_signal_ == SIGHUP ? SIGTERM : user_signal_;
      // Once some have left, others may lose a peer: that is no failure of the run.
      if (by_signal || number == 128 + asked || number == 3) return;
    }
    running.failed = true;
    const bool root_cause = by_signal || (number != 3 && number <= 128);
    if (phase_ == Phase::kTerminating || phase_ == Phase::kKilled) return;  // we ended it
    if (!failure_ || (root_cause && !failure_->is_root_cause && !announced_)) {
      WorkerFailure failure;
      failure.rank = running.worker->rank;
      failure.exit_code = by_signal ? static_cast<int>(ExitCode::kComm) : number;
      failure.is_root_cause = root_cause;
      failure.report = report(running, by_signal, number);
      failure_ = failure;
    }
    if (failure_->is_root_cause) announce();
    if (phase_ == Phase::kRunning) {
      phase_ = Phase::kSettling;
      deadline_ = Clock::now() + options_.settle;
    }
  }

  std::string report(const Running& running, bool by_signal, int number) const {
    const Worker& worker = *running.worker;
    std::string text = "rank " + std::to_string(worker.rank);
    if (by_signal) {
      text += " was killed by signal " + std::to_string(number) + " (" + ::strsignal(number) + ")";
    } else {
      text += " failed with exit code " + std::to_string(number) + ": " + meaning(number);
    }
    const LogEnd end = read_log_end(worker.program.output);
    std::string shown = worker.echo ? "" : end.context;  // an echoed log is on the screen already
    if (!end.error.empty()) shown += (shown.empty() ? "" : "\n") + end.error;
    text += "\nits log: " + worker.program.output;
    if (!shown.empty()) text += ", which ends with\n" + indented(shown);
    return text;
  }

  void announce() {
    if (announced_) return;
    announced_ = true;
    if (link_ != nullptr) link_->send_failure(*failure_);
  }

  void listen_to_other_nodes() {
    if (link_ == nullptr) return;
    const std::optional<WorkerFailure> remote = link_->poll();
    if (!remote) return;
    if (!failure_ || (remote->is_root_cause && !failure_->is_root_cause && !announced_)) {
      failure_ = remote;
      announced_ = true;
    }
    if (phase_ == Phase::kRunning) {
      phase_ = Phase::kSettling;
      deadline_ = Clock::now() + options_.settle;
    }
  }

  void act_on_time() {
    if (phase_ == Phase::kRunning || Clock::now() < deadline_) return;
    if (phase_ == Phase::kSettling) {
      announce();
      signal_all(SIGTERM);
      phase_ = Phase::kTerminating;
      deadline_ = Clock::now() + options_.terminate;
    } else if (phase_ == Phase::kTerminating) {
      signal_all(SIGKILL);
      phase_ = Phase::kKilled;
      deadline_ = Clock::time_point::max();
    }
  }

  int conclude() {
    for (Running& running : running_) {
      if (!running.echo) continue;
      if (running.failed) {
        running.echo->poll();
      } else {
        running.echo->finish();
      }
    }
    if (failure_) {
      announce();
      log_error(failure_->report);
      return failure_->exit_code;
    }
    if (link_ != nullptr) link_->send_done();
    return user_signal_ == 0 ? 0 : 128 + user_signal_;
  }

  const WorkerGroupOptions& options_;
  NodeLink* link_;
  SignalQueue signals_;
  std::vector<Running> running_;
  Phase phase_ = Phase::kRunning;
  Clock::time_point deadline_ = Clock::time_point::max();
  int user_signal_ = 0;
  std::optional<WorkerFailure> failure_;
  bool announced_ = false;
};

}  // namespace

int run_worker_group(const std::vector<Worker>& workers, const WorkerGroupOptions& options,
                     NodeLink* link) {
  TESSERA_CHECK(!workers.empty());
  return Group(workers, options, link).wait();
}

}  // namespace tessera
