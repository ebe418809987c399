#include "tessera/schedule/rank_walk.h"

#include "tessera/schedule/schedule_formulas.h"

namespace tessera {
namespace {

Problem mark_once(std::vector<bool>& done, int64_t i) {
  if (done[i]) return "stands in the list twice";
  done[i] = true;
  return std::nullopt;
}

}  // namespace

RankWalk::RankWalk(const ScheduleOptions& options, int64_t rank) : o_(options), rank_(rank) {
  for (auto* flags : {&forward_done_, &backward_done_, &input_received_, &gradient_received_,
                      &forward_sent_, &backward_sent_}) {
    flags->assign(o_.chunks * o_.micro_batches, false);
  }
}

Problem RankWalk::step(const Action& a) {
  if (is_transfer(a)) return run_transfer(a);
  if (has_backward(a)) {
    if (Problem p = run_backward(backward_pass(a))) return p;
  }
  if (has_forward(a)) {
    if (Problem p = run_forward(forward_pass(a))) return p;
  }
  if (has_backward(a)) --live_;  // after the forward of its pair has begun
  return std::nullopt;
}

Problem RankWalk::at_end() const {
  for (int64_t chunk = 0; chunk < o_.chunks; ++chunk) {
    for (int64_t micro_batch = 0; micro_batch < o_.micro_batches; ++micro_batch) {
      const Pass pass{chunk, chunk * o_.stages + rank_, micro_batch};
      const int64_t i = index(pass);
      const bool last = pass.virtual_stage + 1 == o_.virtual_stages();
      const bool alone = o_.stages == 1;
      const char* missing = nullptr;
      if (!forward_done_[i])
        missing = "F";
      else if (!backward_done_[i])
        missing = "B";
      else if (!forward_sent_[i] && !last && !alone)
        missing = "FS";
      else if (!backward_sent_[i] && pass.virtual_stage > 0 && !alone)
        missing = "BS";
      if (missing) {
        return missing + std::to_string(micro_batch) + "@" + std::to_string(pass.virtual_stage) +
               " is missing";
      }
    }
  }
  return std::nullopt;
}

Problem RankWalk::check_fields(const Pass& p) const {
  if (p.chunk < 0 || p.chunk >= o_.chunks) return "the rank has no such chunk";
  if (p.micro_batch < 0 || p.micro_batch >= o_.micro_batches) return "no such micro-batch";
  if (p.virtual_stage != p.chunk * o_.stages + rank_) return "not a virtual stage of this rank";
  return std::nullopt;
}

Problem RankWalk::run_forward(const Pass& p) {
  if (Problem problem = check_fields(p)) return problem;
  const int64_t i = index(p);
  const bool made_here = o_.stages == 1 && p.chunk > 0 && forward_done_[i - o_.micro_batches];
  if (p.virtual_stage > 0 && !input_received_[i] && !made_here) return "its input is not there";
  const int64_t bound = peak_live_chunks(o_, rank_);
  if (++live_ > bound) {
    return std::to_string(live_) + " live chunks, " + std::to_string(bound) + " are the bound";
  }
  return mark_once(forward_done_, i);
}

Problem RankWalk::run_backward(const Pass& p) {
  if (Problem problem = check_fields(p)) return problem;
  const int64_t i = index(p);
  if (!forward_done_[i]) return "its forward has not run before it";
  const bool made_here =
      o_.stages == 1 && p.chunk + 1 < o_.chunks && backward_done_[i + o_.micro_batches];
  const bool last = p.virtual_stage + 1 == o_.virtual_stages();
  if (!last && !gradient_received_[i] && !made_here)
    return "the gradient of its output is not there";
  return mark_once(backward_done_, i);
}

Problem RankWalk::run_transfer(const Action& a) {
  const Pass p = forward_pass(a);
  if (Problem problem = check_fields(p)) return problem;
  const bool next = a.kind == ActionKind::kSendForward || a.kind == ActionKind::kRecvBackward;
  const int64_t other = p.virtual_stage + (next ? 1 : -1);
  if (other < 0 || other == o_.virtual_stages()) return "an end of the model has no neighbour";
  if (a.peer != other % o_.stages || a.peer == rank_) {
    return "its peer is not rank " + std::to_string(a.peer);
  }
  const int64_t i = index(p);
  switch (a.kind) {
    case ActionKind::kSendForward:
      return forward_done_[i] ? mark_once(forward_sent_, i) : "sent before it was made";
    case ActionKind::kSendBackward:
      return backward_done_[i] ? mark_once(backward_sent_, i) : "sent before it was made";
    case ActionKind::kRecvForward: return mark_once(input_received_, i);
    default: return mark_once(gradient_received_, i);
  }
}

}  // namespace tessera
