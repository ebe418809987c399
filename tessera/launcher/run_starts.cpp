#include "tessera/launcher/run_starts.h"

#include <algorithm>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/log.h"

namespace tessera {
namespace {

// A node 0 that gives no verdict by then is gone: its workers are ended long before.
constexpr std::chrono::seconds kVerdictTime{60};

class Starts {
 public:
  explicit Starts(const StartPlan& plan)
      : plan_(plan), place_(plan.meet({}, nullptr)), limit_(place_.max_restarts) {}

  int run() {
    for (;;) {
      const GroupOutcome outcome = run_group();
      std::string refusal;
      if (!starts_again(outcome, refusal)) return finish(outcome, refusal);
      record(outcome);
      log_warning(outcome.failure->report + "\nthe run starts again (start " +
                  std::to_string(restarts_.back().generation) + ")");
      meet_again();
    }
  }

 private:
  bool is_node_0() const { return place_.link == nullptr || place_.link->decides(); }

  GroupOutcome run_group() {
    std::vector<Restart> open;
    for (const Restart& restart : restarts_) {
      if (restart.first_step == 0) open.push_back(restart);
    }
    WorkerGroupOptions options = plan_.group;
    options.stays_for_others = place_.max_restarts > 0;
    stepped_ = false;
    options.on_first_step = [this](int64_t first_step) {
      stepped_ = true;
      limit_.finished_step();
      for (Restart& restart : restarts_) {
        if (restart.first_step != 0) continue;
        restart.first_step = first_step;
        restart.going_on_at = unix_seconds();
      }
    };
    return run_worker_group(plan_.workers(place_, open), options, place_.link.get());
  }

  // Node 0 decides for all; where it is gone, the others go on asking for it.
  bool starts_again(const GroupOutcome& outcome, std::string& refusal) {
    if (place_.max_restarts == 0 || !outcome.failure) return false;
    const bool may = outcome.user_signal == 0 && may_start_again(outcome.exit_code);
    if (!is_node_0()) return may && place_.link->await_verdict(kVerdictTime).value_or(true);
    const bool at_once = !stepped_ && outcome.exit_code == static_cast<int>(ExitCode::kCheckpoint);
    if (may && at_once) refusal = "a checkpoint that cannot be read now cannot be read then";
    if (may && !at_once) refusal = limit_.refusal(RestartLimit::Clock::now());
    const bool again = may && refusal.empty();
    if (place_.link) place_.link->send_verdict(again);
    return again;
  }

  void record(const GroupOutcome& outcome) {
    const std::string& report = outcome.failure->report;
    Restart restart;
    restart.generation = place_.generation + 1;
    restart.cause = report.substr(0, report.find('\n'));
    restart.rank = outcome.failure->rank;
    restart.exit_code = outcome.exit_code;
    restart.failed_at = std::chrono::duration<double>(outcome.failed_at.time_since_epoch()).count();
    restart.reached = outcome.reached;
    // A start that came to no step has lost what the one before had reached.
    if (!restarts_.empty() && restarts_.back().first_step == 0) {
      restart.reached = std::max(restart.reached, restarts_.back().reached);
    }
    restarts_.push_back(std::move(restart));
  }

  void meet_again() {
    if (place_.link == nullptr) {  // all workers are of this node
      ++place_.generation;
      return;
    }
    const EarlierStart earlier{place_.job_id, place_.generation, is_node_0()};
    std::unique_ptr<PortClaim> claim = std::move(place_.claim);
    place_.link.reset();
    try {
      place_ = plan_.meet(earlier, std::move(claim));
    } catch (const CommError& error) {
      throw CommError(error.what() + ("\n" + report(restarts_)));
    }
    restarts_.back().generation = place_.generation;
  }

  int finish(const GroupOutcome& outcome, const std::string& refusal) {
    std::string text = report(restarts_);
    if (!outcome.failure) {
      if (!text.empty()) log_info(text);
      return outcome.exit_code;
    }
    if (!refusal.empty()) text = "the run does not start again: " + refusal + "\n" + text;
    log_error(outcome.failure->report + (text.empty() ? "" : "\n" + text));
    return outcome.exit_code;
  }

  const StartPlan& plan_;
  NodeAssignment place_;
  RestartLimit limit_;
  std::vector<Restart> restarts_;
  bool stepped_ = false;  // a step of this start is finished
};

}  // namespace

int run_starts(const StartPlan& plan) { return Starts(plan).run(); }

}  // namespace tessera
