#include "tessera/schedule/validate_schedule.h"

#include <map>

#include "tessera/schedule/rank_walk.h"
#include "tessera/schedule/run_until_stuck.h"
#include "tessera/schedule/transfers.h"

namespace tessera {
namespace {

std::string place(const PipelineSchedule& s, int64_t rank, size_t index) {
  return "rank " + std::to_string(rank) + ", action " + std::to_string(index) + " (" +
         to_string(s.ranks[rank][index]) + ")";
}

// The send that a receive waits for, as its sender writes it.
Action matching_send(const PipelineSchedule& s, int64_t rank, const Action& receive) {
  Action send = receive;
  const bool forward = receive.kind == ActionKind::kRecvForward;
  send.kind = forward ? ActionKind::kSendForward : ActionKind::kSendBackward;
  send.virtual_stage += forward ? -1 : 1;
  send.chunk = send.virtual_stage / s.options.stages;
  send.peer = rank;
  return send;
}

Problem check_pairs(const PipelineSchedule& s) {
  std::map<int64_t, const Action*> sends;  // by tag
  for (int64_t rank = 0; rank < s.options.stages; ++rank) {
    for (size_t i = 0; i < s.ranks[rank].size(); ++i) {
      const Action& a = s.ranks[rank][i];
      if (!is_send(a)) continue;
      if (a.tag < 0 || a.tag >= tag_count(s.options))
        return place(s, rank, i) + ": tag out of range";
      if (const auto [at, added] = sends.emplace(a.tag, &a); !added) {
        return place(s, rank, i) + ": has the tag of " + to_string(*at->second);
      }
    }
  }
  size_t receives = 0;
  for (int64_t rank = 0; rank < s.options.stages; ++rank) {
    for (size_t i = 0; i < s.ranks[rank].size(); ++i) {
      const Action& a = s.ranks[rank][i];
      if (!is_receive(a)) continue;
      ++receives;
      Action expected = matching_send(s, rank, a);
      const auto found = sends.find(a.tag);
      if (found != sends.end()) expected.column = found->second->column;
      if (found == sends.end() || *found->second != expected) {
        return place(s, rank, i) + ": tag " + std::to_string(a.tag) + " belongs to " +
               (found == sends.end() ? "no send" : to_string(*found->second)) + ", not to " +
               to_string(expected);
      }
    }
  }
  if (receives != sends.size()) return "a send has no receive";
  return std::nullopt;
}

// Runs the lists as if every transfer were waited for in place. With `buffered` a send goes through
// at once, else only together with its receive.
Problem check_progress(const PipelineSchedule& s, bool buffered) {
  std::vector<size_t> next(s.ranks.size(), 0);
  std::vector<bool> sent(tag_count(s.options), false);
  const auto at_tag = [&](int64_t rank, int64_t tag) {
    return next[rank] < s.ranks[rank].size() && is_transfer(s.ranks[rank][next[rank]]) &&
           s.ranks[rank][next[rank]].tag == tag;
  };
  run_until_stuck(s.options.stages, [&](int64_t rank) {
    if (next[rank] == s.ranks[rank].size()) return false;
    const Action& a = s.ranks[rank][next[rank]];
    if (is_transfer(a)) {
      if (buffered) {
        if (is_receive(a) && !sent[a.tag]) return false;
        sent[a.tag] = true;
      } else {
        if (!at_tag(a.peer, a.tag)) return false;
        ++next[a.peer];
      }
    }
    ++next[rank];
    return true;
  });
  std::string stuck;
  for (int64_t rank = 0; rank < s.options.stages; ++rank) {
    if (next[rank] == s.ranks[rank].size()) continue;
    stuck += stuck.empty() ? "" : "; ";
    stuck += place(s, rank, next[rank]) + " waits for rank " +
             std::to_string(s.ranks[rank][next[rank]].peer);
  }
  if (stuck.empty()) return std::nullopt;
  return std::string("deadlock with ") + (buffered ? "buffered" : "blocking") + " sends: " + stuck;
}

}  // namespace

std::optional<std::string> validate_schedule(const PipelineSchedule& s) {
  if (static_cast<int64_t>(s.ranks.size()) != s.options.stages) return "one list a stage expected";
  for (int64_t rank = 0; rank < s.options.stages; ++rank) {
    RankWalk walk(s.options, rank);
    for (size_t i = 0; i < s.ranks[rank].size(); ++i) {
      if (Problem p = walk.step(s.ranks[rank][i])) return place(s, rank, i) + ": " + *p;
    }
    if (Problem p = walk.at_end()) return "rank " + std::to_string(rank) + ": " + *p;
  }
  if (Problem p = check_pairs(s)) return p;
  if (Problem p = check_progress(s, /*buffered=*/true)) return p;
  return check_progress(s, /*buffered=*/false);
}

}  // namespace tessera
