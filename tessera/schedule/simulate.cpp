#include "tessera/schedule/simulate.h"

#include <algorithm>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/schedule/run_until_stuck.h"
#include "tessera/schedule/transfers.h"

namespace tessera {
namespace {

constexpr double kNotYet = -1;

/// A message: when each end came to it, and when the data is there.
struct Message {
  double send_posted = kNotYet;
  double receive_posted = kNotYet;

  bool met() const { return send_posted >= 0 && receive_posted >= 0; }
  double arrival(double cost) const { return std::max(send_posted, receive_posted) + cost; }
};

class Run {
 public:
  Run(const PipelineSchedule& schedule, const ChunkCosts& costs)
      : schedule_(schedule),
        costs_(costs),
        messages_(tag_count(schedule.options)),
        next_(schedule.ranks.size(), 0),
        clock_(schedule.ranks.size(), 0.0) {
    pending_.resize(schedule.ranks.size());
    result_.ranks.resize(schedule.ranks.size());
  }

  Simulation finish() {
    run_until_stuck(schedule_.options.stages, [this](int64_t rank) { return step(rank); });
    for (size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      TESSERA_CHECK_EQ(next_[rank], schedule_.ranks[rank].size(), "rank ", rank, " never ends");
      result_.makespan = std::max(result_.makespan, clock_[rank]);
    }
    const std::vector<double> one(schedule_.options.virtual_stages(), 1.0);
    const std::vector<double> live = peak_live_size(schedule_, one);
    for (size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      RankTiming& timing = result_.ranks[rank];
      timing.idle = result_.makespan - timing.busy;
      timing.peak_live = static_cast<int64_t>(live[rank]);
    }
    return std::move(result_);
  }

 private:
  // Both ends of a message must have come to it before either goes on, unless posted ahead.
  bool step(int64_t rank) {
    const std::vector<Action>& actions = schedule_.ranks[rank];
    if (next_[rank] == actions.size()) return false;
    const Action& a = actions[next_[rank]];
    const double start = clock_[rank];
    double begin = start;
    if (is_transfer(a)) {
      if (!do_transfer(rank, a)) return false;
    } else if (is_compute(a)) {
      if (!wait_for_inputs(rank)) return false;
      begin = clock_[rank];
      const double cost = (has_forward(a) ? costs_.forward[a.virtual_stage] : 0) +
                          (has_backward(a) ? costs_.backward[backward_pass(a).virtual_stage] : 0);
      clock_[rank] += cost;
      result_.ranks[rank].busy += cost;
    }
    result_.ranks[rank].actions.push_back({begin, clock_[rank]});
    ++next_[rank];
    return true;
  }

  bool do_transfer(int64_t rank, const Action& a) {
    Message& message = messages_[a.tag];
    (is_send(a) ? message.send_posted : message.receive_posted) = clock_[rank];
    if (schedule_.options.overlap_p2p) {
      if (is_receive(a)) pending_[rank].push_back(a);
      return true;
    }
    if (!message.met()) return false;
    clock_[rank] = message.arrival(costs_.transfer);
    return true;
  }

  // Waits for the posted receives that the next computation uses.
  bool wait_for_inputs(int64_t rank) {
    const Action& a = schedule_.ranks[rank][next_[rank]];
    std::vector<Action>& pending = pending_[rank];
    const auto used = [&](const Action& receive) {
      const Pass pass = forward_pass(receive);
      return receive.kind == ActionKind::kRecvForward ? has_forward(a) && forward_pass(a) == pass
                                                      : has_backward(a) && backward_pass(a) == pass;
    };
    for (const Action& receive : pending) {
      if (used(receive) && !messages_[receive.tag].met()) return false;
    }
    for (const Action& receive : pending) {
      if (!used(receive)) continue;
      clock_[rank] = std::max(clock_[rank], messages_[receive.tag].arrival(costs_.transfer));
    }
    std::erase_if(pending, used);
    return true;
  }

  const PipelineSchedule& schedule_;
  const ChunkCosts& costs_;
  std::vector<Message> messages_;             // by tag
  std::vector<std::vector<Action>> pending_;  // posted receives of each rank, overlap_p2p only
  std::vector<size_t> next_;
  std::vector<double> clock_;
  Simulation result_;
};

}  // namespace

ChunkCosts equal_costs(const ScheduleOptions& options, double forward, double backward,
                       double transfer) {
  const auto count = static_cast<size_t>(options.virtual_stages());
  return {std::vector<double>(count, forward), std::vector<double>(count, backward), transfer};
}

ChunkCosts layer_costs(const std::vector<int64_t>& layers, double embedding, double head,
                       double backward_ratio) {
  TESSERA_CHECK(!layers.empty());
  ChunkCosts costs;
  costs.forward.assign(layers.begin(), layers.end());
  costs.forward.front() += embedding;
  costs.forward.back() += head;
  for (const double forward : costs.forward) costs.backward.push_back(backward_ratio * forward);
  return costs;
}

double Simulation::idle_over_ideal() const {
  double idle = 0;
  double busy = 0;
  for (const RankTiming& rank : ranks) {
    idle += rank.idle;
    busy += rank.busy;
  }
  return idle / busy;
}

Simulation simulate(const PipelineSchedule& schedule, const ChunkCosts& costs) {
  const auto count = static_cast<size_t>(schedule.options.virtual_stages());
  TESSERA_CHECK_EQ(costs.forward.size(), count);
  TESSERA_CHECK_EQ(costs.backward.size(), count);
  return Run(schedule, costs).finish();
}

std::vector<double> peak_live_size(const PipelineSchedule& schedule,
                                   const std::vector<double>& size) {
  std::vector<double> peaks;
  for (const std::vector<Action>& actions : schedule.ranks) {
    double live = 0;
    double peak = 0;
    for (const Action& a : actions) {
      if (has_forward(a)) peak = std::max(peak, live += size[a.virtual_stage]);
      if (has_backward(a)) live -= size[backward_pass(a).virtual_stage];
    }
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace tessera
