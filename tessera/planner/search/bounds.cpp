#include "tessera/planner/search/bounds.h"

#include <algorithm>

#include "tessera/layout/dtypes.h"
#include "tessera/layout/layer_ranges.h"
#include "tessera/layout/pipeline_options.h"
#include "tessera/layout/placement.h"
#include "tessera/layout/resharding.h"
#include "tessera/planner/moment_plan.h"
#include "tessera/planner/seconds/work_seconds.h"
#include "tessera/planner/tapes/call_tapes.h"
#include "tessera/planner/tapes/held_elements.h"
#include "tessera/planner/traffic/traffic_plan.h"
#include "tessera/planner/weight_groups.h"
#include "tessera/schedule/schedule_formulas.h"

namespace tessera {
namespace {

// What a unit costs in one micro-batch at least.
struct Cost {
  double forward = 0.0;
  double backward = 0.0;
  double compute = 0.0;  // of both, alone on a processor
  double kept = 0.0;     // bytes from the forward to the backward

  Cost& operator+=(const Cost& other) {
    forward += other.forward;
    backward += other.backward;
    compute += other.compute;
    kept += other.kept;
    return *this;
  }
};

struct Held {
  double state = 0.0;      // bytes of masters and moments
  double gradients = 0.0;  // of the rank's part
  double gathered = 0.0;   // full weights
  double gather = 0.0;     // seconds of a message
  double reduce = 0.0;
  double update = 0.0;  // seconds

  Held& operator+=(const Held& other) {
    state += other.state;
    gradients += other.gradients;
    gathered += other.gathered;
    gather += other.gather;
    reduce += other.reduce;
    update += other.update;
    return *this;
  }
};

// Values of units, to be summed over stretches of layers.
template <typename Value>
struct Sums {
  std::vector<Value> before;  // [layers + 1] sums of the layers before
  Value embedding, end;       // end: prediction of several tokens, head

  Value stretch(int64_t first, int64_t last) const {
    Value sum = before[static_cast<size_t>(last)];
    const Value& less = before[static_cast<size_t>(first)];
    Value negative = less;
    scale(negative, -1.0);
    return sum += negative;
  }
  static void scale(Cost& c, double by) {
    c.forward *= by, c.backward *= by, c.compute *= by, c.kept *= by;
  }
  static void scale(Held& h, double by) {
    h.state *= by, h.gradients *= by, h.gathered *= by, h.gather *= by, h.reduce *= by,
        h.update *= by;
  }
};

// Sums of what `of` says of every unit.
template <typename Value, typename Of>
Sums<Value> sum_units(const std::vector<ModelUnit>& units, int64_t layers, Of of) {
  Sums<Value> sums;
  sums.before.push_back(Value{});
  for (const ModelUnit& unit : units) {
    const Value value = of(unit);
    if (unit.kind == ModelUnit::Kind::kEmbedding) {
      sums.embedding = value;
    } else if (unit.kind == ModelUnit::Kind::kLayer && unit.layer < layers) {
      Value next = sums.before.back();
      sums.before.push_back(next += value);
    } else {
      sums.end += value;
    }
  }
  return sums;
}

ParallelDims dims_of(const LayoutChoice& c) {
  ParallelDims dims;
  dims.world = c.world;
  dims.pp = c.pp;
  dims.tp = c.tp;
  dims.cp = c.cp;
  dims.dp_shard = c.dp_shard;
  dims.dp_replicate = c.dp_replicate();
  dims.ep = c.ep;
  return dims;
}

int64_t method_number(const LayoutChoice& c) {
  return c.cp == 1 ? 0 : c.method == "colossal" ? 1 : c.method == "ulysses" ? 2 : 2 + c.ulysses;
}

}  // namespace

struct LayoutBounds::Passes {
  Sums<Cost> of[3];  // by RecomputeChoice
};

struct LayoutBounds::Weights {
  Sums<Held> sums;
};

LayoutBounds::LayoutBounds(const Config& config, const Machine& machine,
                           const SearchOptions& options)
    : config_(config),
      machine_(machine),
      options_(options),
      units_(model_units(config.model)),
      head_layers_(head_layers(config.model, units_)),
      slow_(slow_down(machine, 1, options.world)) {
  if (machine.devices || machine.sharing.points.empty()) {
    most_at_once_ = 0.0;
    return;
  }
  for (int64_t ranks = 1; ranks <= options.world; ++ranks) {
    most_at_once_ = std::max(most_at_once_,
                             static_cast<double>(ranks) / slow_down(machine, ranks, options.world));
  }
}

LayoutBounds::~LayoutBounds() = default;

const LayoutBounds::Passes& LayoutBounds::passes_of(const LayoutChoice& c) {
  const std::vector<int64_t> key = {c.tp, c.cp, method_number(c), c.ep, c.by_node, c.local_batch};
  std::unique_ptr<Passes>& made = passes_[key];
  if (made) return *made;
  made = std::make_unique<Passes>();
  const bool any_experts = c.ep == 0;  // as many ranks as experts, and no messages
  LayoutChoice part = c;
  part.pp = part.chunks = 1;
  part.ep = any_experts ? std::max<int64_t>(1, config_.model.n_routed_experts) : c.ep;
  part.world = part.tp * part.cp * part.ep;
  part.dp_shard = part.ep;
  const bool pairs = config_.parallelism.pipeline_parallel_overlap_b_f;
  const BatchPlan batch{part.data_parallel(), c.local_batch, 1, 1, 1};
  const auto costs = [&](RecomputeChoice recompute) {
    part.recompute = recompute;
    const Config config = with_layout(config_, part, 0.0, machine_.node_ranks);
    ParallelDims dims = dims_of(part);
    dims.world = std::max(dims.world, options_.world);
    dims.dp_replicate = dims.world / part.world;
    const CallTapes tapes(config, dims, batch, 0);
    const WorkSeconds seconds(machine_, config, dims, options_.processes);
    const int64_t layers = config_.model.num_hidden_layers;
    std::map<std::vector<int64_t>, Cost> seen;
    std::vector<Cost> list;
    for (const ModelUnit& unit : units_) {
      const bool layer = unit.kind == ModelUnit::Kind::kLayer;
      const auto [found, is_new] =
          seen.try_emplace({static_cast<int64_t>(unit.kind), layer && unit.layer >= layers,
                            layer && config_.model.is_moe_layer(unit.layer),
                            layer ? config_.model.window_of(unit.layer) : 0});
      if (is_new) {
        const CallWork& work = tapes.work(unit);
        SpentSeconds forward = seconds.of(work.forward), backward = seconds.of(work.backward);
        if (any_experts) forward[Spent::kEp] = backward[Spent::kEp] = 0.0;
        const auto cost = [&](const SpentSeconds& spent) {
          return slow_ * spent.compute() + (pairs ? 0.0 : spent.waits());
        };
        found->second = {cost(forward), cost(backward), forward.compute() + backward.compute(),
                         static_cast<double>(tapes.measure(unit).kept)};
      }
      list.push_back(found->second);
    }
    return list;
  };
  const std::vector<Cost> none = costs(RecomputeChoice::kNone);
  const std::vector<Cost> all = costs(RecomputeChoice::kAll);
  for (const RecomputeChoice choice :
       {RecomputeChoice::kNone, RecomputeChoice::kHalf, RecomputeChoice::kAll}) {
    size_t at = 0;
    made->of[static_cast<size_t>(choice)] =
        sum_units<Cost>(units_, config_.model.num_hidden_layers, [&](const ModelUnit& unit) {
          const bool again = unit.kind == ModelUnit::Kind::kLayer &&
                             (choice == RecomputeChoice::kAll ||
                              (choice == RecomputeChoice::kHalf && unit.layer % 2 == 0));
          const Cost cost = (again ? all : none)[at];
          ++at;
          return cost;
        });
  }
  return *made;
}

const LayoutBounds::Weights& LayoutBounds::weights_of(const LayoutChoice& c) {
  const std::vector<int64_t> key = {c.tp, c.cp, c.dp_shard, c.ep, c.world / c.pp};
  std::unique_ptr<Weights>& made = weights_[key];
  if (made) return *made;
  made = std::make_unique<Weights>();
  const Config config = with_layout(config_, c, 0.0, machine_.node_ranks);
  ParallelDims dims = dims_of(c);
  const WorkSeconds seconds(machine_, config, dims, options_.processes);
  const auto master = static_cast<double>(size_of(master_dtype(config.model)));
  std::map<std::vector<int64_t>, Held> seen;
  made->sums = sum_units<Held>(units_, config_.model.num_hidden_layers, [&](const ModelUnit& unit) {
    const bool layer = unit.kind == ModelUnit::Kind::kLayer;
    const auto [found, is_new] = seen.try_emplace(
        {static_cast<int64_t>(unit.kind), layer && unit.layer >= config_.model.num_hidden_layers,
         layer && config_.model.is_moe_layer(unit.layer)});
    if (!is_new) return found->second;
    Held held;
    for (const TensorGroup& group : unit.tensors) {
      const Placement placement = place_parameter(group.role, config.model, dims);
      const auto own = static_cast<double>(held_elements(group, placement, dims, 0).own);
      const auto moments = static_cast<double>(moment_bytes(config, dims, group, 0));
      held.state += static_cast<double>(size_of(group.held)) * own + moments;
      if (group.frozen) continue;
      held.gradients += master * own;
      held.update += seconds.elements(3 * master * own + 2 * moments);
    }
    for (const WeightGroup& group : weight_groups(config, dims, unit, 0, false)) {
      held.gathered += static_cast<double>(group.gathered);
    }
    for (const auto& [axis, bytes] : unit_bytes(config, dims, unit, 1, 0)) {
      const auto others = static_cast<double>(dims.size(axis) - 1);
      if (others == 0) continue;
      held.gather += seconds.message(axis, "all_gather", others * bytes.own);
      held.reduce += seconds.message(axis, "reduce_scatter", static_cast<double>(bytes.reduced));
    }
    found->second = held;
    return held;
  });
  return *made;
}

const LayerPlacement& LayoutBounds::placement_of(const LayoutChoice& c) {
  const auto [found, is_new] = placements_.try_emplace({c.pp, c.chunks, c.light_ends});
  if (is_new) {
    found->second = place_layers(with_layout(config_, c, head_layers_, machine_.node_ranks));
  }
  return found->second;
}

double LayoutBounds::seconds_of(const LayoutChoice& parts) {
  const Sums<Cost>& costs = passes_of(parts).of[0];
  Cost all = costs.before.back();
  all += costs.embedding;
  all += costs.end;
  // Micro-batches times the mean over the stages: the degree of pp cancels.
  const double passes = static_cast<double>(config_.training.global_batch_size) *
                        static_cast<double>(parts.tp * parts.cp) /
                        static_cast<double>(options_.world * parts.local_batch);
  const double seconds = (all.forward + all.backward) * passes;
  if (most_at_once_ == 0.0) return seconds;
  return std::max(seconds,
                  all.compute * passes * static_cast<double>(options_.world) / most_at_once_);
}

LayoutBound LayoutBounds::of(const LayoutChoice& c) {
  const Config& config = config_;
  const Sums<Cost>& costs = passes_of(c).of[static_cast<size_t>(c.recompute)];
  const Sums<Held>& held = weights_of(c).sums;
  const int64_t micro_batches =
      config.training.global_batch_size / (c.data_parallel() * c.local_batch);
  const auto m = static_cast<double>(micro_batches);

  ParallelismConfig parallelism = config.parallelism;
  parallelism.pipeline_parallel = c.pp;
  parallelism.pipeline_parallel_interleave_num = c.chunks;
  const ScheduleOptions schedule = pipeline_options(parallelism, micro_batches);
  const bool never = c.reshard == "never" || (c.reshard == "default" && c.pp > 1);
  const bool once = c.reshard != "always";

  LayoutBound bound;
  double fill = 0.0, update = 0.0, all_compute = 0.0;
  const int64_t parts = c.pp * c.chunks;
  const LayerPlacement& placement = placement_of(c);
  for (int64_t stage = 0; stage < c.pp; ++stage) {
    Cost work;
    Held own;
    double least_kept = -1.0;
    Cost first;
    for (int64_t chunk = 0; chunk < c.chunks; ++chunk) {
      const int64_t part = chunk * c.pp + stage;
      const LayerRange& range = placement[static_cast<size_t>(stage)][static_cast<size_t>(chunk)];
      Cost cost = costs.stretch(range.first, range.last + 1);
      Held weights = held.stretch(range.first, range.last + 1);
      if (part == 0) cost += costs.embedding, weights += held.embedding;
      if (part == parts - 1) cost += costs.end, weights += held.end;
      if (chunk == 0) first = cost;
      work += cost;
      own += weights;
      least_kept = least_kept < 0 ? cost.kept : std::min(least_kept, cost.kept);
    }
    const double gathers = never ? own.gather : m * own.gather * (c.reshard == "always" ? 2 : 1);
    const double messages = gathers + (once ? 1.0 : m) * own.reduce;
    const double busy = m * (work.forward + work.backward);
    const double time = machine_.overlap ? std::max(busy, messages) : busy + messages;
    bound.seconds = std::max(bound.seconds, time + fill);
    fill += first.forward + first.backward;
    update = std::max(update, own.update);
    all_compute += m * work.compute;
    const double live = static_cast<double>(peak_live_chunks(schedule, stage)) * least_kept;
    const double whole = never ? own.gathered : 0.0;
    bound.memory = std::max({bound.memory, own.state + live + whole, own.state + own.gradients});
  }
  if (most_at_once_ > 0) {
    bound.seconds =
        std::max(bound.seconds, all_compute * static_cast<double>(c.world / c.pp) / most_at_once_);
  }
  bound.seconds = std::max(bound.seconds, seconds_of(c)) + slow_ * update;
  return bound;
}

}  // namespace tessera
