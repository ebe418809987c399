#include "config_testing.h"
#include "tessera/config/derive.h"

namespace tessera {
namespace {

using namespace testing_config;

std::vector<Issue> refused(int64_t world, const std::vector<std::string>& sets) {
  const ConfigResult result = load_config_text(kBase, "x.yaml", "/nonexistent", sets);
  EXPECT_TRUE(result.ok()) << format_issues(result.issues);
  return unsupported_yet(result.config, result.provenance, derive_dims(result.config, world));
}

TEST(Unsupported, PlainDataParallelRuns) {
  EXPECT_TRUE(refused(8, {}).empty());
  EXPECT_TRUE(refused(8, {"parallelism.data_parallel_shard=2"}).empty());
}

TEST(Unsupported, WhatTheEngineDoesNotRunIsOneErrorEach) {
  const auto issues = refused(8, {"parallelism.tensor_parallel=2", "parallelism.context_parallel=2",
                                  "parallelism.pipeline_parallel=2", "model.hidden_dropout=0.1",
                                  "model.compute_dtype=bfloat16", "recompute.mode=full"});
  EXPECT_EQ(count(issues, Severity::kError), 6) << format_issues(issues);
  EXPECT_THAT(issues, HasError("parallelism.tensor_parallel", "cannot be run yet"));
}

}  // namespace
}  // namespace tessera
