#include "tessera/planner/search/elastic_plan.h"

#include <fmt/format.h>

#include <map>
#include <optional>

#include "tessera/base/error.h"
#include "tessera/planner/bytes_text.h"
#include "tessera/planner/search/layout_space.h"
#include "tessera/planner/seconds/seconds_text.h"
#include "tessera/rules/derive.h"

namespace tessera {
namespace {

// The fastest layout of exactly `world` ranks; none: nothing is legal and fits.
std::optional<FoundLayout> fastest(const Config& config, const Machine& machine,
                                   SearchOptions options, int64_t world) {
  options.world = world;
  options.list_legal = false;
  try {
    return search_layouts(config, machine, options).best.front();
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

int64_t value_of(const std::map<std::string, int64_t>& layout, const char* key, int64_t otherwise) {
  const auto found = layout.find(key);
  return found == layout.end() ? otherwise : found->second;
}

// A layout that the file lists, on all ranks that it can use.
std::optional<FoundLayout> listed(const Config& config, const Machine& machine,
                                  const SearchOptions& options, int64_t left) {
  for (const auto& layout : config.elastic.layouts) {
    LayoutChoice choice;
    const ParallelismConfig& p = config.parallelism;
    choice.tp = value_of(layout, "tensor_parallel", p.tensor_parallel);
    choice.cp = value_of(layout, "context_parallel", p.context_parallel);
    choice.pp = value_of(layout, "pipeline_parallel", p.pipeline_parallel);
    choice.chunks =
        value_of(layout, "pipeline_parallel_interleave_num", p.pipeline_parallel_interleave_num);
    choice.ep = value_of(layout, "expert_parallel", p.expert_parallel);
    choice.method = p.context_parallel_method;
    choice.ulysses = p.ulysses_degree_in_cp.value_or(1);
    choice.by_node = p.moe_token_dispatcher_type == "alltoall_deredundancy";
    choice.reshard = p.reshard_after_forward_policy;
    choice.local_batch = config.training.local_batch_size;
    const int64_t inner = choice.tp * choice.cp * choice.pp;
    const int64_t shard = value_of(layout, "data_parallel_shard", -1);
    for (int64_t dp = left / inner; dp > 0; --dp) {
      choice.world = dp * inner;
      choice.dp_shard = shard == -1 ? dp : shard;
      if (config.training.global_batch_size % (dp * choice.local_batch) != 0) continue;
      Config made = found_config(config, choice, machine);
      made.recompute = config.recompute;
      if (!broken_rule(made, choice.world, options.provenance).empty()) continue;
      FoundLayout found;
      found.choice = choice;
      found.seconds = plan_seconds(made, choice.world, machine, options.processes);
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<ElasticStep> plan_elastic(const Config& config, const Machine& machine,
                                      const SearchOptions& options, int64_t least) {
  std::map<int64_t, std::optional<FoundLayout>> by_world;
  std::vector<ElasticStep> steps;
  for (int64_t left = options.world; left >= std::max<int64_t>(1, least); --left) {
    ElasticStep step;
    step.left = left;
    if (const auto from_list = listed(config, machine, options, left)) {
      step.used = from_list->choice.world;
      step.listed = true;
      step.found = *from_list;
    }
    for (int64_t world = left; world > 0 && step.used == 0 && config.elastic.layouts.empty();
         --world) {
      const auto [entry, is_new] = by_world.try_emplace(world);
      if (is_new) entry->second = fastest(config, machine, options, world);
      if (!entry->second) continue;
      step.used = world;
      step.found = *entry->second;
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
