#include "tessera/planner/seconds/stage_passes.h"

#include <algorithm>

#include "tessera/planner/traffic/traffic_plan.h"

namespace tessera {
namespace {

// The messages of a unit go one after the other beside the computation.
class Stream {
 public:
  explicit Stream(bool beside) : beside_(beside) {}

  /// Starts a message that takes `seconds`; returns when it has arrived.
  double start(double seconds) {
    if (!beside_) {  // the rank itself moves it
      waited_ += seconds;
      now_ += seconds;
      return now_;
    }
    free_ = std::max(free_, now_) + seconds;
    return free_;
  }
  void wait(double until) {
    if (until <= now_) return;
    waited_ += until - now_;
    now_ = until;
  }
  void compute(double seconds) { now_ += seconds; }
  double end() const { return free_; }
  double waited() const { return waited_; }

 private:
  bool beside_;
  double now_ = 0.0;
  double free_ = 0.0;
  double waited_ = 0.0;
};

}  // namespace

StagePasses::StagePasses(const Config& config, const ParallelDims& dims, const BatchPlan& batch,
                         const StageUnits& stage, const CallTapes& tapes, int64_t rank,
                         const WorkSeconds& seconds)
    : policy_(resharding(config, dims)), overlap_(seconds.machine().overlap) {
  double copied = 0.0;
  for (size_t u = 0; u < stage.units.size(); ++u) {
    const ModelUnit& unit = stage.units[u];
    Unit made;
    for (const auto& [axis, bytes] : unit_bytes(config, dims, unit, batch.micro_batches, rank)) {
      const auto others = static_cast<double>(dims.size(axis) - 1);
      if (others == 0) continue;
      made.gather += seconds.message(axis, "all_gather", others * static_cast<double>(bytes.own));
      made.reduce += seconds.message(axis, "reduce_scatter", static_cast<double>(bytes.reduced));
    }
    if (unit.is_copy) {  // its messages travel with those of the unit that uses it
      copied = made.gather;
      continue;
    }
    if (unit.uses_embedding) made.gather += copied;
    made.head = unit.kind == ModelUnit::Kind::kHead;
    const CallWork& work = tapes.work(unit);
    made.forward = seconds.of(work.forward);
    made.backward = seconds.of(work.backward);
    for (const auto* list : {&work.forward, &work.backward}) {
      for (const Work& item : *list) flops_ += item.flops;
    }
    chunks_.resize(stage.chunk_of_unit[u] + 1);
    chunks_.back().push_back(made);
  }
}

SpentSeconds StagePasses::forward(size_t chunk, PassPlace place) const {
  const bool gathers = !policy_.keep_all_step || place.first;
  SpentSeconds spent;
  Stream stream(overlap_);
  const std::vector<Unit>& units = chunks_[chunk];
  double arrives = gathers && !units.empty() ? stream.start(units.front().gather) : 0.0;
  for (size_t i = 0; i < units.size(); ++i) {
    stream.wait(arrives);
    if (gathers && i + 1 < units.size()) arrives = stream.start(units[i + 1].gather);
    stream.compute(units[i].forward.sum());
    spent += units[i].forward;
  }
  spent[Spent::kFsdp] += stream.waited();
  return spent;
}

SpentSeconds StagePasses::backward(size_t chunk, PassPlace place) const {
  const bool reduces = !policy_.reduce_once || place.last;
  SpentSeconds spent;
  Stream stream(overlap_);
  const std::vector<Unit>& units = chunks_[chunk];
  const auto gather_of = [&](size_t i) {
    const bool kept = policy_.keep_all_step || (units[i].head && policy_.keep_head);
    return kept ? 0.0 : units[i].gather;
  };
  double arrives = units.empty() ? 0.0 : stream.start(gather_of(units.size() - 1));
  for (size_t i = units.size(); i-- > 0;) {
    stream.wait(arrives);
    if (i > 0) arrives = stream.start(gather_of(i - 1));
    stream.compute(units[i].backward.sum());
    spent += units[i].backward;
    if (reduces) stream.start(units[i].reduce);
  }
  stream.wait(stream.end());
  spent[Spent::kFsdp] += stream.waited();
  return spent;
}

}  // namespace tessera
