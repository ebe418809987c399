#include "tessera/planner/search/layout_space.h"

#include <algorithm>

#include "tessera/rules/checker.h"
#include "tessera/rules/validate.h"

namespace tessera {
namespace {

constexpr int64_t kMostChunks = 8;

// The same run on one rank, with nothing of a layout in it.
Config bare(const Config& config) {
  Config made = with_layout(config, LayoutChoice{}, 0.0, 0);
  made.training.rampup_batch_size.reset();
  made.training.global_batch_size = 1;
  return made;
}

}  // namespace

LayoutSpace::LayoutSpace(const Config& config, int64_t world, int64_t node_ranks,
                         const Provenance& provenance)
    : config_(config),
      provenance_(provenance),
      bare_(bare(config)),
      world_(world),
      node_(node_ranks) {
  const std::vector<int64_t> degrees = divisors(world);
  for (const int64_t tp : degrees) {
    if (tp > config.model.num_attention_heads) break;
    for (const int64_t cp : divisors(world / tp)) {
      if (cp > config.model.seq_length) break;
      add_grid(tp, cp);
    }
  }
  for (const int64_t pp : degrees) {
    const int64_t layers = config.model.num_hidden_layers;
    for (int64_t chunks = 1; chunks <= kMostChunks && chunks * pp <= layers; ++chunks) {
      // One more chunk only where it helps: powers of two, or layers that it divides.
      const bool even = layers % (pp * chunks) == 0;
      if (pp == 1 ? chunks > 1 : !even && (chunks & (chunks - 1)) != 0) continue;
      LayoutChoice part;
      part.world = part.pp = pp;
      part.chunks = chunks;
      if (legal(part)) pipelines_.push_back(part);
    }
  }
  for (const int64_t ep : degrees) {
    if (ep > std::max<int64_t>(1, config.model.n_routed_experts)) break;
    for (const bool by_node : {false, true}) {
      LayoutChoice part;
      part.world = part.ep = part.dp_shard = ep;
      part.by_node = by_node;
      if ((!by_node || ep > 1) && legal(part)) experts_.push_back(part);
    }
  }
  locals_ = divisors(config.training.global_batch_size);
}

bool LayoutSpace::legal(const LayoutChoice& part) {
  Config made = with_layout(bare_, part, 0.0, node_);
  made.training.global_batch_size = part.data_parallel() * part.local_batch;
  const std::string rule = broken_rule(made, part.world, provenance_);
  if (!rule.empty()) ++refused_[rule];
  return rule.empty();
}

void LayoutSpace::add_grid(int64_t tp, int64_t cp) {
  LayoutChoice part;
  part.tp = tp;
  part.cp = cp;
  part.world = tp * cp;
  part.local_batch = tp;  // with fewer samples, tp may not divide the tokens: that is asked later
  if (legal(part)) grids_.push_back(part);
  if (cp == 1) return;
  part.method = "ulysses";
  if (legal(part)) grids_.push_back(part);
  part.method = "hybrid";
  for (const int64_t degree : divisors(cp)) {
    part.ulysses = degree;
    if (degree > 1 && degree < cp && legal(part)) grids_.push_back(part);
  }
}

std::vector<LayoutChoice> LayoutSpace::with(const LayoutChoice& grid, const LayoutChoice& expert,
                                            int64_t local) const {
  std::vector<LayoutChoice> choices;
  for (const LayoutChoice& pipeline : pipelines_) {
    const int64_t inner = grid.tp * grid.cp * pipeline.pp;
    if (world_ % inner != 0) continue;
    const int64_t dp = world_ / inner;
    if (config_.training.global_batch_size % (dp * local) != 0) continue;
    LayoutChoice made = grid;
    made.world = world_;
    made.pp = pipeline.pp;
    made.chunks = pipeline.chunks;
    made.ep = expert.ep;
    made.by_node = expert.by_node;
    made.local_batch = local;
    if (local * config_.model.seq_length / grid.cp % grid.tp != 0) continue;
    for (const int64_t shard : divisors(dp)) {
      if (shard * made.cp * made.tp % made.ep != 0) continue;
      made.dp_shard = shard;
      const bool sharded = shard * made.cp > 1;
      for (const RecomputeChoice recompute :
           {RecomputeChoice::kNone, RecomputeChoice::kHalf, RecomputeChoice::kAll}) {
        made.recompute = recompute;
        for (const std::string reshard : {"default", "always", "never"}) {
          // With a pipeline the default is never; what is not sharded is not gathered.
          if (reshard == "never" && made.pp > 1) continue;
          if (reshard != "default" && !sharded) continue;
          made.reshard = reshard;
          for (const bool light : {false, true}) {
            made.light_ends = light;
            if (!light || made.pp > 1) choices.push_back(made);
          }
        }
      }
    }
  }
  return choices;
}

std::string broken_rule(const Config& config, int64_t world, const Provenance& provenance) {
  for (const Issue& issue : validate(config, provenance, world)) {
    if (issue.severity == Severity::kError) {
      return issue.field + (issue.value.empty() ? "" : " = " + issue.value) + ": " + issue.rule;
    }
  }
  return "";
}

}  // namespace tessera
