// One rank equals what other software computed from the same files.

#include <gtest/gtest.h>

#include "tests/e2e/layout.h"
#include "tests/support/case_path.h"
#include "tests/support/json_files.h"

namespace tessera::test {
namespace {

struct Reference {
  std::string name;
  double tolerance;
};

class ReferenceRun : public testing::TestWithParam<Reference> {};

TEST_P(ReferenceRun, OneRankMatches) {
  const auto& [name, tolerance] = GetParam();
  const Config config = load_case(name, {}, 1);
  const auto run = train(config, 1, config.training.steps);
  expect_matches_case(*run, name, tolerance);
}

INSTANTIATE_TEST_SUITE_P(
    Dense, ReferenceRun,
    testing::Values(Reference{"llama_sgd64", 1e-9}, Reference{"llama_adamw64", 1e-9},
                    Reference{"llama_adamw32", 1e-5}, Reference{"qwen3_tied64", 1e-9},
                    Reference{"qwen3_eod64", 1e-9}, Reference{"qwen3_moe64", 1e-9},
                    Reference{"qwen3_moe_aux64", 1e-9}, Reference{"deepseek_v3_64", 1e-9}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tessera::test
