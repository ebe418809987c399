#include "tessera/planner/search/fewer_ranks.h"

#include <algorithm>
#include <map>

#include "tessera/config/writer.h"
#include "tessera/layout/axis.h"
#include "tessera/planner/search/layout_space.h"
#include "tessera/rules/checker.h"
#include "tessera/rules/derive.h"

namespace tessera {
namespace {

class Shrinking {
 public:
  Shrinking(const Config& config, int64_t world, int64_t left, const Provenance& provenance,
            const std::function<bool(const Config&, int64_t)>& fits)
      : config_(config),
        dims_(derive_dims(config, world)),
        left_(left),
        provenance_(provenance),
        fits_(fits) {}

  std::optional<SmallerLayout> run() const {
    if (left_ >= dims_.world) return SmallerLayout{config_, dims_.world, false};
    auto found = fewer_replicas();
    if (!found) found = fewer_shards();
    if (!found) found = of_list();
    return found;
  }

 private:
  int64_t inner() const { return dims_.tp * dims_.cp * dims_.pp; }

  std::optional<SmallerLayout> tried(const ParallelismConfig& parallelism, int64_t used,
                                     bool listed) const {
    SmallerLayout layout{config_, used, listed};
    layout.config.parallelism = parallelism;
    layout.config.parallelism.dense_fsdp_shard_size.reset();
    if (!broken_rule(layout.config, used, provenance_).empty()) return std::nullopt;
    if (!fits_(layout.config, used)) return std::nullopt;
    return layout;
  }

  std::optional<SmallerLayout> fewer_replicas() const {
    ParallelismConfig p = config_.parallelism;
    p.data_parallel_shard = dims_.dp_shard;
    for (int64_t dp = left_ / (inner() * dims_.dp_shard); dp > 0; --dp) {
      if (auto layout = tried(p, dp * dims_.dp_shard * inner(), false)) return layout;
    }
    return std::nullopt;
  }

  std::optional<SmallerLayout> fewer_shards() const {
    ParallelismConfig p = config_.parallelism;
    std::vector<int64_t> experts = divisors(dims_.ep);
    std::ranges::reverse(experts);
    for (const int64_t ep : experts) {
      p.expert_parallel = ep;
      for (int64_t shard = std::min(left_ / inner(), dims_.dp_shard - 1); shard > 0; --shard) {
        p.data_parallel_shard = shard;
        if (auto layout = tried(p, shard * inner(), false)) return layout;
      }
    }
    return std::nullopt;
  }

  std::optional<SmallerLayout> of_list() const {
    for (const std::map<std::string, int64_t>& keys : config_.elastic.layouts) {
      const ParallelismConfig p = with_keys(keys);
      const int64_t group = p.tensor_parallel * p.context_parallel * p.pipeline_parallel;
      for (int64_t dp = left_ / group; dp > 0; --dp) {
        if (auto layout = tried(p, dp * group, true)) return layout;
      }
    }
    return std::nullopt;
  }

  ParallelismConfig with_keys(const std::map<std::string, int64_t>& keys) const {
    ParallelismConfig p = config_.parallelism;
    const auto take = [&](const char* key, int64_t& degree) {
      if (const auto found = keys.find(key); found != keys.end()) degree = found->second;
    };
    const int64_t chunks = p.pipeline_parallel * p.pipeline_parallel_interleave_num;
    take("tensor_parallel", p.tensor_parallel);
    take("context_parallel", p.context_parallel);
    take("pipeline_parallel", p.pipeline_parallel);
    take("pipeline_parallel_interleave_num", p.pipeline_parallel_interleave_num);
    take("expert_parallel", p.expert_parallel);
    take("data_parallel_shard", p.data_parallel_shard);
    // Layers of stages that there are no more.
    if (p.pipeline_parallel == 1) {
      p.pipeline_parallel_layers_per_stage.reset();
    } else if (p.pipeline_parallel * p.pipeline_parallel_interleave_num != chunks) {
      p.pipeline_parallel_layers_per_stage = LayersPerStage{true, {}};
    }
    return p;
  }

  const Config& config_;
  const ParallelDims dims_;
  const int64_t left_;
  const Provenance& provenance_;
  const std::function<bool(const Config&, int64_t)>& fits_;
};

}  // namespace

std::optional<SmallerLayout> layout_of_fewer(
    const Config& config, int64_t world, int64_t left, const Provenance& provenance,
    const std::function<bool(const Config&, int64_t used)>& fits) {
  return Shrinking(config, world, left, provenance, fits).run();
}

std::vector<std::string> layout_overrides(const Config& config, const Config& made) {
  const std::map<std::string, std::string> before = written_fields(config);
  std::vector<std::string> overrides;
  for (const auto& [key, value] : written_fields(made)) {
    if (key.starts_with("parallelism.") && before.at(key) != value) {
      overrides.push_back(key + "=" + value);
    }
  }
  return overrides;
}

std::string layout_text(const Config& config, int64_t used) {
  const ParallelDims dims = derive_dims(config, used);
  std::string text;
  for (const Axis axis :
       {Axis::kDpReplicate, Axis::kDpShard, Axis::kCp, Axis::kTp, Axis::kPp, Axis::kEp}) {
    if (dims.size(axis) == 1) continue;
    text += (text.empty() ? "" : " x ") + std::string(axis_name(axis)) + " " +
            std::to_string(dims.size(axis));
  }
  return text.empty() ? "one rank" : text;
}

}  // namespace tessera
