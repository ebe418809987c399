#include "tessera/planner/seconds/clock.h"

#include <algorithm>
#include <limits>

#include "tessera/base/error.h"
#include "tessera/schedule/run_until_stuck.h"
#include "tessera/schedule/transfers.h"

namespace tessera {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kNotYet = -1.0;

struct Message {
  double send = kNotYet;
  double receive = kNotYet;
  bool met() const { return send >= 0 && receive >= 0; }
  double arrives(double seconds) const { return std::max(send, receive) + seconds; }
};

// Each half of a pair goes on while the other one waits.
void hide(SpentSeconds& forward, const SpentSeconds& backward) {
  const double waits = forward.waits();
  const double left = std::max(0.0, waits - backward.compute());
  for (size_t i = 4; i < kSpentKinds && waits > 0; ++i) forward.of[i] *= left / waits;
}

// What an action that computes takes.
SpentSeconds cost_of(const ClockCosts& costs, size_t rank, const Action& a) {
  SpentSeconds cost;
  if (has_forward(a)) cost += costs.pass(static_cast<int64_t>(rank), forward_pass(a), false);
  if (has_backward(a)) {
    const SpentSeconds back = costs.pass(static_cast<int64_t>(rank), backward_pass(a), true);
    if (has_forward(a) && costs.overlap) hide(cost, back);
    cost += back;
  }
  return cost;
}

// Whether the computation needs what the receive brings.
bool uses(const Action& computation, const Action& receive) {
  const Pass pass = forward_pass(receive);
  return receive.kind == ActionKind::kRecvForward
             ? has_forward(computation) && forward_pass(computation) == pass
             : has_backward(computation) && backward_pass(computation) == pass;
}

// Ranks that do not slow each other have a clock each: a rank goes on until it needs a message
// whose other end has not come to it.
class RunApart {
 public:
  RunApart(const PipelineSchedule& schedule, const ClockCosts& costs)
      : schedule_(schedule),
        costs_(costs),
        messages_(tag_count(schedule.options)),
        ranks_(schedule.ranks.size()) {}

  ClockTimes finish() {
    run_until_stuck(static_cast<int64_t>(ranks_.size()),
                    [this](int64_t rank) { return step(static_cast<size_t>(rank)); });
    ClockTimes times;
    for (const Own& rank : ranks_) times.step = std::max(times.step, rank.now);
    for (size_t at = 0; at < ranks_.size(); ++at) {
      TESSERA_CHECK_EQ(ranks_[at].next, schedule_.ranks[at].size(), "rank ", at, " never ends");
      times.spent.push_back(ranks_[at].spent);
      times.spent.back()[Spent::kIdle] += times.step - ranks_[at].spent.sum();
    }
    return times;
  }

 private:
  struct Own {
    size_t next = 0;
    double now = 0.0;
    std::vector<Action> posted;
    SpentSeconds spent;
  };

  bool step(size_t at) {
    Own& rank = ranks_[at];
    if (rank.next == schedule_.ranks[at].size()) return false;
    const Action& a = schedule_.ranks[at][rank.next];
    if (is_transfer(a) ? !transfer(rank, a) : !compute(rank, at, a)) return false;
    ++rank.next;
    return true;
  }

  bool transfer(Own& rank, const Action& a) {
    Message& message = messages_[static_cast<size_t>(a.tag)];
    (is_send(a) ? message.send : message.receive) = rank.now;
    if (schedule_.options.overlap_p2p) {
      if (is_receive(a)) rank.posted.push_back(a);
      return true;
    }
    if (!message.met()) return false;
    wait_for(rank, message);
    return true;
  }

  void wait_for(Own& rank, const Message& message) const {
    const double arrives = message.arrives(costs_.transfer);
    if (arrives <= rank.now) return;
    // Waiting for the other end is idle time; the message itself is not.
    rank.spent[Spent::kPp] += std::min(arrives - rank.now, costs_.transfer);
    rank.now = arrives;
  }

  bool compute(Own& rank, size_t at, const Action& a) {
    for (const Action& receive : rank.posted) {
      if (uses(a, receive) && !messages_[static_cast<size_t>(receive.tag)].met()) return false;
    }
    for (const Action& receive : rank.posted) {
      if (uses(a, receive)) wait_for(rank, messages_[static_cast<size_t>(receive.tag)]);
    }
    std::erase_if(rank.posted, [&](const Action& receive) { return uses(a, receive); });
    const SpentSeconds cost = cost_of(costs_, at, a);
    rank.spent += cost;
    rank.now += cost.sum();
    return true;
  }

  const PipelineSchedule& schedule_;
  const ClockCosts& costs_;
  std::vector<Message> messages_;
  std::vector<Own> ranks_;
};

// Where a rank is in its list.
struct Rank {
  size_t next = 0;
  double work = 0.0;   // seconds left to compute, alone on its processor
  double until = 0.0;  // it waits until then
  double waits = 0.0;  // for messages, once that is computed
  std::vector<Action> posted;
  SpentSeconds spent;
};

// Ranks that share cores: one clock, event by event, since each slows the others.
class RunTogether {
 public:
  RunTogether(const PipelineSchedule& schedule, const ClockCosts& costs)
      : schedule_(schedule),
        costs_(costs),
        messages_(tag_count(schedule.options)),
        ranks_(schedule.ranks.size()) {}

  ClockTimes finish() {
    for (;;) {
      for (bool moved = true; moved;) {
        moved = false;
        for (size_t rank = 0; rank < ranks_.size(); ++rank) {
          while (step(rank)) moved = true;
        }
      }
      if (!advance()) break;
    }
    ClockTimes times;
    times.step = now_;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      TESSERA_CHECK_EQ(ranks_[rank].next, schedule_.ranks[rank].size(), "rank ", rank,
                       " never ends");
      SpentSeconds& spent = ranks_[rank].spent;
      spent[Spent::kIdle] += now_ - spent.sum();
      times.spent.push_back(spent);
    }
    return times;
  }

 private:
  // One action of a rank that is free now; false: it is busy, waits or is through.
  bool step(size_t at) {
    Rank& rank = ranks_[at];
    if (rank.work > 0 || rank.until > now_) return false;
    const std::vector<Action>& actions = schedule_.ranks[at];
    if (rank.next == actions.size()) return false;
    const Action& a = actions[rank.next];
    if (is_transfer(a)) return transfer(rank, a);
    if (!inputs_there(rank, a)) return false;
    const SpentSeconds cost = cost_of(costs_, at, a);
    begin(rank, cost);
    ++rank.next;
    return true;
  }

  void begin(Rank& rank, const SpentSeconds& cost) {
    rank.work = cost.compute();
    rank.waits = cost.waits();
    rank.until = now_ + (rank.work > 0 ? 0.0 : rank.waits);
    rank.spent += cost;
  }

  bool transfer(Rank& rank, const Action& a) {
    Message& message = messages_[static_cast<size_t>(a.tag)];
    double& end = is_send(a) ? message.send : message.receive;
    if (end < 0) end = now_;
    if (schedule_.options.overlap_p2p) {
      if (is_receive(a)) rank.posted.push_back(a);
      ++rank.next;
      return true;
    }
    if (!message.met()) return false;
    wait_for(rank, message);
    ++rank.next;
    return true;
  }

  void wait_for(Rank& rank, const Message& message) {
    const double arrives = message.arrives(costs_.transfer);
    const double from = std::max(now_, rank.until);
    if (arrives <= from) return;
    // Waiting for the other end is idle time; the message itself is not.
    rank.spent[Spent::kPp] += std::min(arrives - from, costs_.transfer);
    rank.until = std::max(rank.until, arrives);
  }

  bool inputs_there(Rank& rank, const Action& a) {
    const auto used = [&](const Action& receive) { return uses(a, receive); };
    for (const Action& receive : rank.posted) {
      if (used(receive) && !messages_[static_cast<size_t>(receive.tag)].met()) return false;
    }
    for (const Action& receive : rank.posted) {
      if (used(receive)) wait_for(rank, messages_[static_cast<size_t>(receive.tag)]);
    }
    std::erase_if(rank.posted, used);
    return rank.until <= now_;
  }

  // To the next time at which a rank is through with what it does; false: nobody does anything.
  bool advance() {
    int64_t computing = 0;
    for (const Rank& rank : ranks_) computing += rank.work > 0 ? 1 : 0;
    const double slow = costs_.sharing && computing > 0 ? costs_.sharing(computing) : 1.0;
    double next = kNever;
    for (const Rank& rank : ranks_) {
      if (rank.work > 0) {
        next = std::min(next, now_ + rank.work * slow);
      } else if (rank.until > now_) {
        next = std::min(next, rank.until);
      }
    }
    if (next == kNever) return false;
    const double passed = next - now_;
    now_ = next;
    for (Rank& rank : ranks_) {
      if (rank.work <= 0) continue;
      const double done = passed / slow;
      rank.spent[Spent::kShared] += passed - done;
      rank.work -= done;
      if (rank.work > 1e-12 * now_) continue;
      rank.work = 0.0;
      rank.until = now_ + rank.waits;
    }
    return true;
  }

  const PipelineSchedule& schedule_;
  const ClockCosts& costs_;
  std::vector<Message> messages_;
  std::vector<Rank> ranks_;
  double now_ = 0.0;
};

}  // namespace

ClockTimes run_clock(const PipelineSchedule& schedule, const ClockCosts& costs) {
  return costs.sharing ? RunTogether(schedule, costs).finish() : RunApart(schedule, costs).finish();
}

}  // namespace tessera
