#include "tessera/planner/search/elastic_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/planner/bytes_text.h"
#include "tessera/planner/search/fewer_ranks.h"
#include "tessera/planner/seconds/seconds_text.h"
#include "tessera/rules/derive.h"

namespace tessera {
namespace {

LayoutChoice choice_of(const Config& config, int64_t world) {
  const ParallelismConfig& p = config.parallelism;
  const ParallelDims dims = derive_dims(config, world);
  LayoutChoice choice;
  choice.world = world;
  choice.tp = dims.tp;
  choice.cp = dims.cp;
  choice.pp = dims.pp;
  choice.ep = dims.ep;
  choice.dp_shard = dims.dp_shard;
  choice.chunks = p.pipeline_parallel_interleave_num;
  choice.method = p.context_parallel_method;
  choice.ulysses = p.ulysses_degree_in_cp.value_or(1);
  choice.by_node = p.moe_token_dispatcher_type == "alltoall_deredundancy";
  choice.reshard = p.reshard_after_forward_policy;
  choice.local_batch = config.training.local_batch_size;
  return choice;
}

}  // namespace

std::vector<ElasticStep> plan_elastic(const Config& config, const Machine& machine,
                                      const SearchOptions& options, int64_t least) {
  Config elastic = config;
  if (elastic.elastic.layouts.empty()) elastic.elastic.layouts = {{}};  // so the batch is kept
  const auto fits = [&](const Config& made, int64_t used) {
    const double limit = memory_limit(machine, options, used);
    return limit <= 0 || peak_memory(made, used, options.processes) <= limit;
  };
  std::vector<ElasticStep> steps;
  for (int64_t left = options.world; left >= std::max<int64_t>(1, least); --left) {
    ElasticStep step;
    step.left = left;
    if (const auto layout =
            layout_of_fewer(elastic, options.world, left, options.provenance, fits)) {
      step.used = layout->used;
      step.listed = layout->listed;
      step.found.choice = choice_of(layout->config, layout->used);
      step.found.seconds = plan_seconds(layout->config, layout->used, machine, options.processes);
      step.found.memory = peak_memory(layout->config, layout->used, options.processes);
    }
    steps.push_back(step);
  }
  return steps;
}

std::string to_text(const std::vector<ElasticStep>& steps) {
  std::string text =
      fmt::format("{:>8}{:>8}{:>12}{:>13}  layout\n", "ranks", "used", "step", "tokens/s");
  for (const ElasticStep& step : steps) {
    if (step.used == 0) {
      text += fmt::format("{:>8}       -  no layout is legal and fits\n", step.left);
      continue;
    }
    text += fmt::format("{:>8}{:>8}{:>12}{:>13.4g}  {}{}\n", step.left, step.used,
                        seconds_text(step.found.seconds.step), step.found.seconds.tokens_per_second,
                        to_text(step.found.choice), step.listed ? " (elastic.layouts)" : "");
  }
  return text;
}

}  // namespace tessera
