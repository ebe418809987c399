#include "tessera/planner/search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <queue>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/layout/pipeline_options.h"
#include "tessera/layout/placement.h"
#include "tessera/planner/bytes_text.h"
#include "tessera/planner/memory_plan.h"
#include "tessera/planner/pipeline_plan.h"
#include "tessera/planner/search/bounds.h"
#include "tessera/planner/search/layout_space.h"
#include "tessera/planner/seconds/seconds_text.h"
#include "tessera/planner/stage_units.h"
#include "tessera/rules/derive.h"
#include "tessera/schedule/make_schedule.h"

namespace tessera {
namespace {

constexpr size_t kShown = 10;
constexpr int64_t kForFront = 40;  // more plans for the front of memory and time

// A node of the tree of choices, the least promising parts of which are never opened.
struct Node {
  double bound = 0.0;
  LayoutChoice choice;
  int level = 0;  // 0: grid and local batch; 1: and experts; 2: a whole choice
  double memory = 0.0;

  bool operator<(const Node& other) const { return bound > other.bound; }  // the least on top
};

class Search {
 public:
  Search(const Config& config, const Machine& machine, const SearchOptions& options)
      : config_(config),
        machine_(machine),
        options_(options),
        limit_(memory_limit(machine, options, options.world)),
        units_(model_units(config.model)),
        head_(head_layers(config.model, units_)),
        space_(config, options.world, machine.node_ranks, options.provenance),
        bounds_(config, machine, options) {}

  SearchResult run() {
    for (const LayoutChoice& grid : space_.grids()) {
      for (const int64_t local : space_.local_batches()) {
        Node node;
        node.choice = grid;
        node.choice.local_batch = local;
        node.choice.ep = 0;
        const int64_t inner = grid.tp * grid.cp * config_.model.num_hidden_layers;
        // The fewest data parallel ranks are those of the longest pipeline.
        if (options_.world > inner * config_.training.global_batch_size / local) continue;
        node.bound = bounds_.seconds_of(node.choice);
        open_.push(node);
      }
    }
    while (!open_.empty() && !done()) step();
    add_front();
    if (options_.list_legal) list_legal();
    if (found_.empty()) throw ConfigError(nothing_fits());
    finish();
    return std::move(result_);
  }

 private:
  double tenth() const { return found_.size() < kShown ? 1e300 : found_[kShown - 1].seconds.step; }
  bool done() const { return open_.top().bound >= tenth(); }

  void step() {
    std::vector<Node> whole;
    while (!open_.empty() && whole.size() < static_cast<size_t>(options_.threads) && !done()) {
      const Node node = open_.top();
      open_.pop();
      if (node.level == 2) {
        whole.push_back(node);
      } else {
        expand(node);
      }
    }
    plan(whole, tenth());
  }

  void expand(const Node& node) {
    if (node.level == 0) {
      for (const LayoutChoice& expert : space_.experts()) {
        Node next = node;
        next.level = 1;
        next.choice.ep = expert.ep;
        next.choice.by_node = expert.by_node;
        next.bound = std::max(node.bound, bounds_.seconds_of(next.choice));
        open_.push(next);
      }
      return;
    }
    for (const LayoutChoice& choice :
         space_.with(node.choice, node.choice, node.choice.local_batch)) {
      ++result_.tried;
      const LayoutBound bound = bounds_.of(choice);
      if (least_memory_ == 0 || bound.memory < least_memory_) {
        least_memory_ = bound.memory;
        leanest_ = choice;
      }
      if (limit_ > 0 && bound.memory > limit_) {
        ++result_.bounded;
        continue;
      }
      Node next;
      next.level = 2;
      next.choice = choice;
      next.bound = bound.seconds;
      next.memory = bound.memory;
      open_.push(next);
    }
  }

  // Legal, planned in full; on several threads.
  void plan(const std::vector<Node>& nodes, double longest) {
    std::vector<std::thread> threads;
    for (const Node& node : nodes) {
      threads.emplace_back([this, &node, longest] {
        std::string problem;
        const std::optional<FoundLayout> made = look_at(node.choice, longest, problem);
        const std::lock_guard<std::mutex> lock(mutex_);
        ++result_.planned;
        if (!made) {
          ++refused_[problem];
          return;
        }
        if (made->memory == 0) return;  // slower than ten others
        if (limit_ > 0 && made->memory > limit_) {
          too_large_ = too_large_ == 0 ? made->memory : std::min(too_large_, made->memory);
          return;
        }
        found_.push_back(*made);
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::ranges::stable_sort(found_, [](const FoundLayout& a, const FoundLayout& b) {
      return std::tuple(a.seconds.step, a.memory, to_text(a.choice)) <
             std::tuple(b.seconds.step, b.memory, to_text(b.choice));
    });
  }

  // `longest`: seconds of a step from which on the memory is not asked for; it is 0 then.
  std::optional<FoundLayout> look_at(const LayoutChoice& choice, double longest,
                                     std::string& problem) const {
    const Config config = with_layout(config_, choice, head_, machine_.node_ranks);
    problem = broken_rule(config, choice.world, options_.provenance);
    if (!problem.empty()) return std::nullopt;
    FoundLayout made;
    made.choice = choice;
    made.seconds = plan_seconds(config, choice.world, machine_, options_.processes, units_);
    if (made.seconds.step > longest) return made;
    made.memory = peak_memory(config, units_, choice.world, options_.processes);
    return made;
  }

  // What needs less memory than all that is as fast, as far as bounds tell.
  void add_front() {
    for (int64_t planned = 0; planned < kForFront && !open_.empty();) {
      const Node node = open_.top();
      open_.pop();
      if (node.level < 2) {
        if (result_.tried > 200'000) continue;
        expand(node);
        continue;
      }
      const bool beaten = std::ranges::any_of(found_, [&](const FoundLayout& found) {
        return found.memory <= node.memory * 1.05 && found.seconds.step <= node.bound;
      });
      if (beaten || found_.empty()) continue;
      const double least = std::ranges::min_element(found_, {}, &FoundLayout::memory)->memory;
      if (node.memory >= 0.95 * least) continue;
      plan({node}, 1e300);
      ++planned;
    }
  }

  void list_legal() {
    for (const LayoutChoice& grid : space_.grids()) {
      for (const LayoutChoice& expert : space_.experts()) {
        for (const int64_t local : space_.local_batches()) {
          for (const LayoutChoice& choice : space_.with(grid, expert, local)) {
            const Config config = with_layout(config_, choice, head_, machine_.node_ranks);
            if (broken_rule(config, choice.world, options_.provenance).empty())
              result_.legal.push_back(choice);
          }
        }
      }
    }
  }

  std::string nothing_fits() const {
    const std::string head =
        fmt::format("no layout of {} ranks is legal and fits: ", options_.world);
    if (least_memory_ > 0 && limit_ > 0) {
      const double needed = too_large_ > 0 ? too_large_ : least_memory_;
      return head +
             fmt::format(
                 "the leanest ({}) needs {}{} of memory a rank, and there are {}; smallest "
                 "change: --memory {:.0f}, or about {} ranks",
                 to_text(leanest_), too_large_ > 0 ? "" : "at least ",
                 bytes_text(static_cast<int64_t>(needed)), bytes_text(static_cast<int64_t>(limit_)),
                 needed,
                 static_cast<int64_t>(static_cast<double>(options_.world) * needed / limit_) + 1);
    }
    // No choice at all: the batch, or a rule that every part broke.
    const auto most = [](const std::map<std::string, int64_t>& rules) {
      return std::max_element(rules.begin(), rules.end(),
                              [](const auto& a, const auto& b) { return a.second < b.second; });
    };
    if (!refused_.empty()) return head + most(refused_)->first;
    const int64_t batch = config_.training.global_batch_size;
    if (result_.tried == 0 && !space_.grids().empty()) {
      const int64_t above = (batch / options_.world + 1) * options_.world;
      return head + fmt::format(
                        "training.global_batch_size = {}: data parallel x local batch must divide "
                        "it, and no split of {} ranks over tp, cp and pp leaves such a data "
                        "parallel; smallest change: global_batch_size = {}",
                        batch, options_.world, above);
    }
    return head +
           (space_.refused().empty() ? "nothing can be tried" : most(space_.refused())->first);
  }

  void finish() {
    result_.bounded += static_cast<int64_t>(open_.size());
    for (size_t i = 0; i < found_.size() && i < kShown; ++i) result_.best.push_back(found_[i]);
    double least = 1e300;
    for (const FoundLayout& found : found_) {  // by time
      if (found.memory >= least) continue;
      least = found.memory;
      result_.front.push_back(found);
    }
    name_limit();
    name_neighbours();
  }

  void name_limit() {
    const FoundLayout& best = found_.front();
    const auto slowest = std::ranges::max_element(
        best.seconds.stages, {}, [](const SpentSeconds& spent) { return -spent[Spent::kIdle]; });
    size_t most = 1;
    for (size_t i = 1; i < kSpentKinds; ++i) {
      if (slowest->of[i] > slowest->of[most]) most = i;
    }
    result_.limit = fmt::format(
        "beside products ({:.0f} % of the step) {} takes {:.0f} %; memory {} of {}",
        100 * slowest->of[0] / best.seconds.step, spent_name(most),
        100 * slowest->of[most] / best.seconds.step, bytes_text(static_cast<int64_t>(best.memory)),
        limit_ > 0 ? bytes_text(static_cast<int64_t>(limit_)) : "no limit");
  }

  // The best one with one choice changed.
  void name_neighbours() {
    const LayoutChoice& best = found_.front().choice;
    const int64_t dp = best.data_parallel();
    const auto tell = [&](LayoutChoice other) {
      if (other == best) return;
      std::string problem;
      const bool whole = other.world % (other.tp * other.cp * other.pp) == 0 &&
                         other.data_parallel() % std::max<int64_t>(1, other.dp_shard) == 0;
      if (!whole) return;
      const int64_t samples = other.data_parallel() * other.local_batch;
      if (config_.training.global_batch_size % samples != 0) {
        problem = fmt::format("global_batch_size must be a multiple of {}", samples);
        result_.others.push_back({other, problem});
        return;
      }
      const std::optional<FoundLayout> made = look_at(other, 1e300, problem);
      if (made) {
        const double slower = made->seconds.step / found_.front().seconds.step - 1.0;
        problem = limit_ > 0 && made->memory > limit_
                      ? "needs " + bytes_text(static_cast<int64_t>(made->memory))
                      : fmt::format("{:.1f} % slower", 100 * slower);
      }
      result_.others.push_back({other, problem});
    };
    const auto moved = [&](int64_t LayoutChoice::*degree, bool up) {
      LayoutChoice other = best;
      if (up && dp % 2 == 0) {
        other.*degree *= 2;
        if (other.dp_shard % 2 == 0) other.dp_shard /= 2;
        tell(other);
      } else if (!up && best.*degree % 2 == 0) {
        other.*degree /= 2;
        other.dp_shard *= 2;
        tell(other);
      }
    };
    for (const auto degree : {&LayoutChoice::tp, &LayoutChoice::pp, &LayoutChoice::cp}) {
      moved(degree, true);
      moved(degree, false);
    }
    LayoutChoice other = best;
    other.local_batch *= 2;
    tell(other);
    other = best;
    if (best.recompute == RecomputeChoice::kAll) other.recompute = RecomputeChoice::kHalf;
    if (best.recompute == RecomputeChoice::kHalf) other.recompute = RecomputeChoice::kNone;
    tell(other);
    other = best;
    if (best.dp_shard % 2 == 0) other.dp_shard /= 2;
    tell(other);
    other = best;
    if (best.ep > 1 && best.ep % 2 == 0) other.ep /= 2;
    tell(other);
  }

  const Config& config_;
  const Machine& machine_;
  const SearchOptions& options_;
  const double limit_;
  const std::vector<ModelUnit> units_;
  const double head_;
  LayoutSpace space_;
  LayoutBounds bounds_;
  std::priority_queue<Node> open_;
  std::vector<FoundLayout> found_;  // that fit, by time
  std::map<std::string, int64_t> refused_;
  double least_memory_ = 0.0, too_large_ = 0.0;
  LayoutChoice leanest_;
  std::mutex mutex_;
  SearchResult result_;
};

}  // namespace

// The rank with most of stages that may have it: the first two, the last two, and the one with
// most layers.
double peak_memory(const Config& config, int64_t world, bool processes) {
  return peak_memory(config, model_units(config.model), world, processes);
}

double peak_memory(const Config& config, const std::vector<ModelUnit>& units, int64_t world,
                   bool processes) {
  const ParallelDims dims = derive_dims(config, world);
  const BatchPlan batch = make_batch_plan(config, dims);
  const std::vector<StageUnits> stages = assign_units(units, plan_stages(config, dims));
  const PipelineSchedule schedule =
      make_schedule(pipeline_options(config.parallelism, batch.micro_batches));
  int64_t most = 0;
  for (int64_t pp = 1; pp < dims.pp; ++pp) {
    if (stages[static_cast<size_t>(pp)].units.size() >
        stages[static_cast<size_t>(most)].units.size()) {
      most = pp;
    }
  }
  std::vector<int64_t> looked_at = {0, 1, dims.pp - 2, dims.pp - 1, most};
  std::ranges::sort(looked_at);
  looked_at.erase(std::unique(looked_at.begin(), looked_at.end()), looked_at.end());
  double peak = 0.0;
  for (const int64_t pp : looked_at) {
    if (pp < 0 || pp >= dims.pp) continue;
    const MemoryPlan plan =
        plan_memory(config, dims, batch, schedule, stages[static_cast<size_t>(pp)],
                    pp * (world / dims.pp), processes);
    peak = std::max(peak, static_cast<double>(plan.peak));
  }
  return peak;
}

double memory_limit(const Machine& machine, const SearchOptions& options, int64_t world) {
  if (options.memory > 0) return options.memory;
  return machine.devices ? machine.memory : machine.memory / static_cast<double>(world);
}

SearchResult search_layouts(const Config& config, const Machine& machine,
                            const SearchOptions& options) {
  return Search(config, machine, options).run();
}

Config found_config(const Config& config, const LayoutChoice& choice, const Machine& machine) {
  return with_layout(config, choice, head_layers(config.model, model_units(config.model)),
                     machine.node_ranks);
}

}  // namespace tessera
