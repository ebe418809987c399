#include "tessera/planner/step_memory.h"

#include <algorithm>
#include <map>
#include <set>

#include "tessera/layout/resharding.h"
#include "tessera/planner/tapes/call_tapes.h"
#include "tessera/planner/weight_groups.h"

namespace tessera {
namespace {

// A group of weights and where it stands in a step.
struct GroupState {
  WeightGroup bytes;
  int uses = 0;  // by calls of a micro-batch
  bool resident = false;
  bool gathering = false;
  int arrived = 0;
  int64_t pending = 0;   // full gradients that are not reduced yet
  int64_t reducing = 0;  // full gradients on their way, and what is received for them
  bool has_shard = false;
};

struct CallState {
  CallMemory memory;
  std::vector<size_t> groups;
  bool reshard = true;
  bool trains = true;
};

class StepWalk {
 public:
  StepWalk(const Config& config, const ParallelDims& dims, const BatchPlan& batch,
           const StageUnits& stage, int64_t rank, bool processes)
      : policy_(resharding(config, dims)),
        micro_batches_(batch.micro_batches),
        processes_(processes) {
    const CallTapes tapes(config, dims, batch, rank);
    std::vector<size_t> of_copy, of_embedding, of_head;
    std::vector<std::pair<size_t, size_t>> predictions;  // chunk, call
    for (size_t u = 0; u < stage.units.size(); ++u) {
      const ModelUnit& unit = stage.units[u];
      std::vector<size_t> groups;
      for (const WeightGroup& group : weight_groups(config, dims, unit, rank, processes)) {
        groups.push_back(groups_.size());
        groups_.push_back({group});
      }
      if (unit.is_copy) {  // held by the unit that uses it
        of_copy = groups;
        continue;
      }
      chunks_.resize(stage.chunk_of_unit[u] + 1);
      std::vector<CallState>& calls = chunks_.back();
      CallState call;
      const bool head = unit.kind == ModelUnit::Kind::kHead;
      call.memory = tapes.measure(unit);
      call.trains = unit.trains;
      if (!unit.trains) {
        call.memory.kept = call.memory.backward_peak = call.memory.weight_gradients = 0;
      }
      call.groups = groups;
      call.reshard = !policy_.keep_all_step && !(head && policy_.keep_head);
      if (unit.uses_embedding) {
        const std::vector<size_t>& used = of_copy.empty() ? of_embedding : of_copy;
        call.groups.insert(call.groups.end(), used.begin(), used.end());
      }
      if (unit.kind == ModelUnit::Kind::kEmbedding) of_embedding = groups;
      if (head) of_head = groups;
      if (unit.layer >= config.model.num_hidden_layers) {
        predictions.emplace_back(chunks_.size() - 1, calls.size());
      }
      calls.push_back(std::move(call));
    }
    for (const auto& [chunk, call] : predictions) {  // they also end in the head
      auto& groups = chunks_[chunk][call].groups;
      groups.insert(groups.end(), of_head.begin(), of_head.end());
    }
    for (const auto& calls : chunks_) {
      for (const CallState& call : calls) {
        for (const size_t group : call.groups) ++groups_[group].uses;
      }
    }
    rotary_ = tapes.rotary_bytes();
    now_.activations = micro_batches_ * tapes.batch_bytes();
  }

  StepPeak run(const std::vector<Action>& actions) {
    for (const Action& action : actions) {
      size_t done = has_backward(action) ? 0 : backward_calls(action);
      size_t made = has_forward(action) ? 0 : forward_calls(action);
      if (has_backward(action)) begin_backward(backward_pass(action));
      if (has_forward(action)) begin_forward(forward_pass(action));
      // Both in turn.
      while (done < backward_calls(action) || made < forward_calls(action)) {
        if (done < backward_calls(action)) backward(backward_pass(action), done++);
        if (made < forward_calls(action)) forward(forward_pass(action), made++);
      }
    }
    peak_.left = now_.activations;
    return peak_;
  }

 private:
  std::vector<CallState>& calls_of(int64_t chunk) { return chunks_[static_cast<size_t>(chunk)]; }
  size_t backward_calls(const Action& a) {
    return has_backward(a) ? calls_of(backward_pass(a).chunk).size() : 0;
  }
  size_t forward_calls(const Action& a) {
    return has_forward(a) ? calls_of(forward_pass(a).chunk).size() : 0;
  }

  // `activations` and `gradients` beyond what lives.
  void look(int64_t activations, int64_t gradients) {
    StepPeak there = now_;
    there.activations += activations;
    there.gradients += gradients;
    if (there.total() > peak_.total()) peak_ = there;
  }

  void gather(const CallState& call) {
    for (const size_t g : call.groups) {
      GroupState& group = groups_[g];
      if (group.resident) continue;
      group.resident = group.gathering = true;
      now_.gathered += group.bytes.gathered + group.bytes.converted;
    }
  }
  void use(const CallState& call) {
    gather(call);
    for (const size_t g : call.groups) {
      GroupState& group = groups_[g];
      if (group.gathering) now_.gathered -= group.bytes.converted;
      group.gathering = false;
    }
  }
  void give_back(const CallState& call) {
    if (policy_.keep_all_step) return;
    for (const size_t g : call.groups) {
      if (groups_[g].resident) now_.gathered -= groups_[g].bytes.gathered;
      groups_[g].resident = false;
    }
  }

  void begin_forward(const Pass& pass) {
    if (started_.insert(pass.micro_batch).second) now_.activations += rotary_;
    now_.activations += calls_of(pass.chunk).front().memory.input;
  }

  void forward(const Pass& pass, size_t at) {
    const auto& calls = calls_of(pass.chunk);
    const CallState& call = calls[at];
    use(call);
    if (at + 1 < calls.size()) gather(calls[at + 1]);
    look(call.memory.forward_peak, 0);
    now_.activations += call.memory.kept + call.memory.output;
    if (call.reshard) give_back(call);
  }

  void begin_backward(const Pass& pass) {
    // The gradient of the output: of a loss it is a number.
    now_.activations += calls_of(pass.chunk).back().memory.output;
  }

  void backward(const Pass& pass, size_t from_end) {
    const auto& calls = calls_of(pass.chunk);
    const size_t at = calls.size() - 1 - from_end;
    const CallState& call = calls[at];
    const CallMemory& m = call.memory;
    if (call.trains) {
      use(call);
      if (at > 0 && calls[at - 1].trains) gather(calls[at - 1]);
    }
    // A sum over micro-batches that is there already is added to in place.
    const bool summed =
        std::ranges::any_of(call.groups, [this](size_t g) { return groups_[g].pending > 0; });
    look(m.backward_peak - m.weight_gradients, summed ? 0 : m.weight_gradients);
    const int64_t of_output =
        at + 1 < calls.size() ? calls[at + 1].memory.input : calls.back().memory.output;
    now_.activations += m.input - m.kept - m.output - of_output;
    give_back(call);
    const bool last = ++backwards_[{pass.chunk, at}] == micro_batches_;
    reduce(call, policy_.reduce_once && !last);
    if (at > 0) return;
    now_.activations -= 2 * m.input;  // the chunk's input, and its gradient, which is sent
  }

  void reduce(const CallState& call, bool defer) {
    for (const size_t g : call.groups) {
      GroupState& group = groups_[g];
      const WeightGroup& bytes = group.bytes;
      if (bytes.gradients == 0) continue;  // frozen
      const int64_t before = group.pending;
      group.pending = before == 0 ? bytes.gradients : bytes.summed;
      now_.gradients += group.pending - before;
      look(0, 0);
      if (++group.arrived % group.uses != 0 || defer) continue;
      wait_for_reductions();
      if (!group.has_shard && !bytes.reduced) {  // the full gradients are the shard
        group.has_shard = true;
        group.pending = 0;
        continue;
      }
      if (!group.has_shard) now_.gradients += bytes.shard;
      group.has_shard = true;
      if (processes_) {
        const int64_t received = before == 0 ? bytes.received : bytes.received_summed;
        now_.gradients += received;
        group.reducing += received;
      }
      group.reducing += group.pending;
      group.pending = 0;
      look(0, 0);
    }
  }
  void wait_for_reductions() {
    for (GroupState& group : groups_) {
      now_.gradients -= group.reducing;
      group.reducing = 0;
    }
  }

  Resharding policy_;
  int64_t micro_batches_;
  bool processes_;
  int64_t rotary_ = 0;
  std::vector<GroupState> groups_;
  std::vector<std::vector<CallState>> chunks_;
  std::set<int64_t> started_;                                // micro-batches
  std::map<std::pair<int64_t, size_t>, int64_t> backwards_;  // by chunk and call
  StepPeak now_, peak_;
};

}  // namespace

StepPeak plan_step_peak(const Config& config, const ParallelDims& dims, const BatchPlan& batch,
                        const PipelineSchedule& schedule, const StageUnits& stage, int64_t rank,
                        bool processes) {
  const auto pp = static_cast<size_t>(dims.index_on(Axis::kPp, rank));
  return StepWalk(config, dims, batch, stage, rank, processes).run(schedule.ranks[pp]);
}

}  // namespace tessera
