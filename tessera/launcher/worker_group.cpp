#include "tessera/launcher/worker_group.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/launcher/signal_queue.h"
#include "tessera/launcher/worker_log.h"
#include "tessera/launcher/worker_report.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kPollMilliseconds = 50;

struct Running {
  const Worker* worker = nullptr;
  pid_t pid = -1;
  bool ended = false;
  bool failed = false;
  std::unique_ptr<RankPage> page;
  std::unique_ptr<LogEcho> echo;
  RankState state;  // once it has ended: how
};

class Group {
 public:
  Group(const std::vector<Worker>& workers, const WorkerGroupOptions& options, NodeLink* link)
      : options_(options), link_(link), signals_(options.grace.count() > 0) {
    try {
      for (const Worker& worker : workers) {
        Running running;
        running.worker = &worker;
        running.page = RankPage::create();
        Subprocess program = worker.program;
        if (running.page) program.environment[RankPage::kVariable] = running.page->handle();
        running.pid = start(program);
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

  GroupOutcome wait() {
    while (alive() > 0 || verdict_may_come() || waits_for_others()) {
      pollfd wake{signals_.descriptor(), POLLIN, 0};
      ::poll(&wake, 1, kPollMilliseconds);
      handle_signals();
      reap();
      for (Running& running : running_) {
        if (running.echo && !running.ended) running.echo->poll();
      }
      listen_to_other_nodes();
      notice_first_step();
      notice_standstill();
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
        signal_all(forwarded());
        if (options_.grace.count() > 0) grace_end_ = Clock::now() + options_.grace;
      } else {
        signal_all(SIGKILL);
      }
    }
  }

  // What the workers get for the signal of the user.
  int forwarded() const {
    return user_signal_ == SIGHUP || user_signal_ == SIGUSR1 ? SIGTERM : user_signal_;
  }

  // The workers of this node have ended well, those of others still run.
  bool waits_for_others() {
    if (!options_.stays_for_others || link_ == nullptr || failure_ || user_signal_ != 0) {
      return false;
    }
    if (!link_->decides() || link_->others_done()) tell_done();
    return !link_->others_done();
  }

  void tell_done() {
    if (!told_done_) link_->send_done();
    told_done_ = true;
  }

  void notice_first_step() {
    if (first_step_seen_ || !options_.on_first_step) return;
    for (const Running& running : running_) {
      if (!running.page) continue;
      const int64_t first = running.page->first_step();
      if (first == 0 || running.page->step() <= first) continue;
      first_step_seen_ = true;
      options_.on_first_step(first);
      return;
    }
  }

  // Before its first step a rank may read and build for as long as the others wait for it.
  void notice_standstill() {
    if (options_.standstill.count() == 0 || phase_ != Phase::kRunning || user_signal_ != 0) return;
    for (const Running& running : running_) {
      if (running.ended || !running.page || running.page->first_step() == 0) continue;
      if (running.page->work() == RankWork::kSaves || !running.page->waits().empty()) continue;
      if (running.page->time_in_work() < options_.standstill) continue;
      const int rank = running.worker->rank;
      failure_ = WorkerFailure{rank, static_cast<int>(ExitCode::kComm),
                               report({rank, true, {}, false}, states()), true};
      if (link_ != nullptr) link_->send_failure(*failure_);
      settle();
      return;
    }
  }

  int64_t reached() const {
    int64_t most = 0;
    for (const Running& running : running_) {
      if (running.page) most = std::max(most, running.page->step() - 1);
    }
    return most;
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
    if (phase_ != Phase::kTerminating && phase_ != Phase::kKilled) {  // else we ended it
      running.state.life = by_signal ? RankState::Life::kKilled : RankState::Life::kEnded;
      running.state.number = number;
    }
    if (!by_signal && number == 0) return;
    if (user_signal_ != 0) {
      // Once some have left, others may lose a peer: that is no failure of the run.
      if (by_signal || number == 128 + forwarded() || number == 3) return;
    }
    running.failed = true;
    const bool root_cause = by_signal || (number != 3 && number <= 128);
    if (phase_ == Phase::kTerminating || phase_ == Phase::kKilled) return;  // we ended it
    if (!failure_ || (root_cause && !failure_->is_root_cause)) {
      failure_ = WorkerFailure{running.worker->rank,
                               by_signal ? static_cast<int>(ExitCode::kComm) : number,
                               report(running), root_cause};
      if (root_cause && link_ != nullptr) link_->send_failure(*failure_);
    }
    settle();
  }

  // Others report for a moment, then what still runs is ended.
  void settle() {
    if (phase_ != Phase::kRunning) return;
    phase_ = Phase::kSettling;
    failed_at_ = std::chrono::system_clock::now();
    deadline_ = Clock::now() + options_.settle;
    if (link_ == nullptr) return;
    link_->send_states(failure_->is_root_cause ? -1 : failure_->rank, states());
    verdict_deadline_ = deadline_ + options_.settle + options_.terminate;
  }

  // What the ranks of this node do.
  RankStates states() const {
    RankStates all;
    for (const Running& running : running_) {
      RankState state = running.state;
      if (!running.ended && is_stopped(running.pid)) state.life = RankState::Life::kStopped;
      if (running.page) {
        state.step = running.page->step();
        state.work = running.page->work_text();
        state.waits = running.page->waits();
      }
      const std::string error = read_log_end(running.worker->program.output).error;
      state.last_line = error.substr(0, error.find('\n'));
      all[running.worker->rank] = std::move(state);
    }
    return all;
  }

  std::string report(const Running& running) const {
    const Worker& worker = *running.worker;
    std::string text = "rank " + std::to_string(worker.rank);
    RankState state = running.state;
    if (running.page) state.step = running.page->step();
    if (running.ended && state.life == RankState::Life::kEnded) {
      text +=
          " failed with exit code " + std::to_string(state.number) + ": " + meaning(state.number);
    } else {
      text += " " + life_text(state);
    }
    return text + log_text(*running.worker);
  }

  // Names the rank that is at fault, from what all ranks say at this moment.
  void decide() {
    if (decided_ || !failure_) return;
    decided_ = true;
    RankStates all = settled_.empty() ? states() : settled_;
    if (link_ != nullptr) {
      for (const auto& [rank, state] : link_->states()) all.emplace(rank, state);
    }
    const bool by_us = !failure_->is_root_cause;
    if (by_us) {
      const Blame blame = follow_waits(all, failure_->rank);
      failure_->rank = blame.rank;
      failure_->report = report(blame, all);
    }
    const auto named = all.find(failure_->rank);
    const bool ended_well = named != all.end() && named->second.life == RankState::Life::kEnded &&
                            named->second.number != static_cast<int>(ExitCode::kComm);
    if (failure_->rank >= 0 && !ended_well) {
      failure_->report += others_text(all, failure_->rank);
    }
    if (by_us && link_ != nullptr && link_->decides()) {
      failure_->is_root_cause = true;
      link_->send_failure(*failure_);
    }
  }

  std::string report(const Blame& blame, const RankStates& all) const {
    const std::string rank = "rank " + std::to_string(blame.rank);
    if (blame.circle) {
      std::string text = "ranks";
      for (const int member : blame.chain) text += " " + std::to_string(member);
      return text + " wait for each other";
    }
    if (const Running* own = own_worker(blame.rank)) {
      const RankState& state = all.at(blame.rank);
      if (state.life == RankState::Life::kEnded) return report(*own);
      return rank + " " + life_text(state) + log_text(*own->worker) + stack_text(own->pid);
    }
    if (!blame.known) return rank + " does not answer";
    const RankState& state = all.at(blame.rank);
    return rank + " on " + state.node + " " + life_text(state);
  }

  const Running* own_worker(int rank) const {
    const auto found = std::ranges::find_if(
        running_, [&](const Running& running) { return running.worker->rank == rank; });
    return found == running_.end() ? nullptr : &*found;
  }

  void listen_to_other_nodes() {
    if (link_ == nullptr) return;
    const std::optional<WorkerFailure> remote = link_->poll();
    if (!remote) return;
    if (!failure_ || (remote->is_root_cause && !failure_->is_root_cause)) {
      const Running* own = own_worker(remote->rank);
      failure_ = remote;
      decided_ = remote->is_root_cause;
      if (decided_ && own != nullptr) {  // the launcher of node 0 names a rank of this one
        const RankStates all = settled_.empty() ? states() : settled_;
        failure_->report =
            report({remote->rank, true, {}, false}, all) + others_text(all, remote->rank);
      }
    }
    settle();
  }

  // A node other than the first has reported what its ranks wait for, and is told whose fault it
  // is.
  bool verdict_may_come() const {
    return link_ != nullptr && !link_->decides() && failure_ && !failure_->is_root_cause &&
           Clock::now() < verdict_deadline_;
  }

  void act_on_time() {
    if (Clock::now() >= grace_end_) {
      log_warning(options_.launcher + ": the time of --grace is over; the workers are killed");
      signal_all(SIGKILL);
      grace_end_ = Clock::time_point::max();
    }
    if (phase_ == Phase::kRunning || Clock::now() < deadline_) return;
    if (phase_ == Phase::kSettling) {
      settled_ = states();
      if (link_ == nullptr || link_->decides() || failure_->is_root_cause) decide();
      signal_all(SIGTERM);
      phase_ = Phase::kTerminating;
      deadline_ = Clock::now() + options_.terminate;
    } else if (phase_ == Phase::kTerminating) {
      signal_all(SIGKILL);
      phase_ = Phase::kKilled;
      deadline_ = Clock::time_point::max();
    }
  }

  GroupOutcome conclude() {
    for (Running& running : running_) {
      if (!running.echo) continue;
      if (running.failed) {
        running.echo->poll();
      } else {
        running.echo->finish();
      }
    }
    GroupOutcome outcome;
    outcome.user_signal = user_signal_;
    outcome.reached = reached();
    if (failure_) {
      decide();
      outcome.failure = failure_;
      outcome.failed_at = failed_at_;
      outcome.exit_code = failure_->exit_code;
      return outcome;
    }
    if (link_ != nullptr) tell_done();
    outcome.exit_code = user_signal_ == 0 ? 0 : 128 + user_signal_;
    return outcome;
  }

  const WorkerGroupOptions& options_;
  NodeLink* link_;
  SignalQueue signals_;
  std::vector<Running> running_;
  Phase phase_ = Phase::kRunning;
  Clock::time_point deadline_ = Clock::time_point::max();
  Clock::time_point grace_end_ = Clock::time_point::max();
  int user_signal_ = 0;
  bool told_done_ = false;
  bool first_step_seen_ = false;
  std::chrono::system_clock::time_point failed_at_{};
  std::optional<WorkerFailure> failure_;
  bool decided_ = false;  // the report is complete
  RankStates settled_;    // before what still ran was ended
  Clock::time_point verdict_deadline_{};
};

}  // namespace

GroupOutcome run_worker_group(const std::vector<Worker>& workers, const WorkerGroupOptions& options,
                              NodeLink* link) {
  TESSERA_CHECK(!workers.empty() || (link != nullptr && options.stays_for_others));
  return Group(workers, options, link).wait();
}

}  // namespace tessera
