#include "tessera/rules/derive.h"

#include "tessera/base/error.h"
#include "tessera/rules/checker.h"

namespace tessera {
namespace {

std::string arithmetic(const ParallelismConfig& p) {
  return "tensor_parallel " + std::to_string(p.tensor_parallel) + " x context_parallel " +
         std::to_string(p.context_parallel) + " x pipeline_parallel " +
         std::to_string(p.pipeline_parallel);
}

// Each degree alone is between 1 and 2^20, so the product of three fits.
void check_world(Checker& check, int64_t world, int64_t inner) {
  const ParallelismConfig& p = check.config.parallelism;
  const std::string product = arithmetic(p) + " = " + std::to_string(inner);
  std::string_view field = "parallelism.tensor_parallel";
  int64_t degree = p.tensor_parallel;
  for (const auto& [path, value] :
       {std::pair{"parallelism.context_parallel", p.context_parallel},
        std::pair{"parallelism.pipeline_parallel", p.pipeline_parallel}}) {
    if (value > degree) {
      field = path;
      degree = value;
    }
  }
  const std::string rule = product + " must divide the " + std::to_string(world) +
                           " ranks (dp_replicate x dp_shard x cp x tp x pp = ranks)";
  std::string nearest;
  const int64_t others = inner / degree;
  if (world % others == 0) nearest = nearest_divisors(world / others, degree) + "; or ";
  const int64_t below = world / inner * inner;
  if (below > 0) nearest += std::to_string(below) + " ranks or ";
  nearest += std::to_string(below + inner) + " ranks";
  check.error(field, rule, nearest);
}

}  // namespace

ParallelDims derive_dims(Checker& check, int64_t world) {
  const ParallelismConfig& p = check.config.parallelism;
  ParallelDims dims;
  dims.world = world;
  check.dims_ok = false;
  if (world < 1) {
    check.general(Severity::kError, "the number of ranks must be at least 1");
    return dims;
  }
  if (!check.good({"parallelism.tensor_parallel", "parallelism.context_parallel",
                   "parallelism.pipeline_parallel"})) {
    return dims;
  }
  dims.tp = p.tensor_parallel;
  dims.cp = p.context_parallel;
  dims.pp = p.pipeline_parallel;
  const int64_t inner = dims.tp * dims.cp * dims.pp;
  if (world % inner != 0) {
    check_world(check, world, inner);
    return dims;
  }
  const int64_t dp = world / inner;
  const int64_t asked = p.data_parallel_shard;
  dims.dp_shard = asked == -1 ? dp : asked;
  if (asked != -1 && (asked < 1 || dp % asked != 0)) {
    check.error("parallelism.data_parallel_shard",
                "must be -1 or divide data parallel (" + std::to_string(dp) + " = " +
                    std::to_string(world) + " ranks / (" + arithmetic(p) + "))",
                "-1, " + nearest_divisors(dp, asked));
    return dims;
  }
  dims.dp_replicate = dp / dims.dp_shard;
  check.dims_ok = true;

  if (!check.good({"parallelism.expert_parallel"})) {
    check.dims_ok = false;
    return dims;
  }
  dims.ep = p.expert_parallel;
  const int64_t sparse = dims.dp_shard * dims.cp * dims.tp;
  if (sparse % dims.ep != 0) {
    check.error("parallelism.expert_parallel",
                "must divide dp_shard x cp x tp (" + std::to_string(dims.dp_shard) + " x " +
                    std::to_string(dims.cp) + " x " + std::to_string(dims.tp) + " = " +
                    std::to_string(sparse) + "); experts are spread inside one replica",
                nearest_divisors(sparse, dims.ep));
    dims.ep = 1;
  }
  if (p.dense_fsdp_shard_size && *p.dense_fsdp_shard_size != dims.fsdp()) {
    check.error("parallelism.dense_fsdp_shard_size",
                "only dp_shard x cp (" + std::to_string(dims.fsdp()) + ") or null is built");
  }
  return dims;
}

ParallelDims derive_dims(const Config& config, int64_t world) {
  std::vector<Issue> issues;
  const Provenance provenance;
  Checker check(config, provenance, issues);
  check_single_values(check);
  const ParallelDims dims = derive_dims(check, world);
  std::erase_if(issues, [](const Issue& issue) {
    return !issue.field.starts_with("parallelism.") && !issue.field.empty();
  });
  if (has_errors(issues)) throw ConfigError(format_issues(issues));
  return dims;
}

}  // namespace tessera
