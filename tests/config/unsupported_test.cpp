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
  const auto issues = refused(8, {"model.params_dtype=bfloat16", "model.compute_dtype=bfloat16"});
  EXPECT_EQ(count(issues, Severity::kError), 2) << format_issues(issues);
  EXPECT_THAT(issues, HasError("model.compute_dtype", "cannot be run yet"));
}

}  // namespace
}  // namespace tessera
