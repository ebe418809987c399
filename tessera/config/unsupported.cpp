// What the engine does not run yet. Entries go away as it learns.

#include "tessera/config/checker.h"
#include "tessera/config/validate.h"

namespace tessera {

std::vector<Issue> unsupported_yet(const Config& config, const Provenance& provenance,
                                   const ParallelDims& dims) {
  std::vector<Issue> issues;
  Checker check(config, provenance, issues);
  const auto refuse = [&](bool asked, std::string_view path) {
    if (asked) check.error(path, "cannot be run yet");
  };
  refuse(dims.tp > 1, "parallelism.tensor_parallel");
  refuse(dims.cp > 1, "parallelism.context_parallel");
  refuse(dims.pp > 1, "parallelism.pipeline_parallel");
  const ModelConfig& m = config.model;
  refuse(m.hidden_dropout > 0, "model.hidden_dropout");
  refuse(m.params_dtype == DType::kBFloat16, "model.params_dtype");
  refuse(m.embedding_params_dtype == DType::kBFloat16, "model.embedding_params_dtype");
  refuse(m.compute_dtype == DType::kBFloat16, "model.compute_dtype");
  refuse(config.recompute.mode != "None", "recompute.mode");
  return issues;
}

}  // namespace tessera
