// What the engine does not run yet. Entries go away as it learns.

#include "tessera/config/checker.h"
#include "tessera/config/validate.h"

namespace tessera {

std::vector<Issue> unsupported_yet(const Config& config, const Provenance& provenance,
                                   const ParallelDims& /*dims*/) {
  std::vector<Issue> issues;
  Checker check(config, provenance, issues);
  const auto refuse = [&](bool asked, std::string_view path) {
    if (asked) check.error(path, "cannot be run yet");
  };
  const ModelConfig& m = config.model;
  refuse(m.params_dtype == DType::kBFloat16, "model.params_dtype");
  refuse(m.embedding_params_dtype == DType::kBFloat16, "model.embedding_params_dtype");
  refuse(m.compute_dtype == DType::kBFloat16, "model.compute_dtype");
  return issues;
}

}  // namespace tessera
