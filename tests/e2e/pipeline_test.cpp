// Pipelines train the same model as one rank: stages, chunks, micro-batches, with everything else.

#include <gtest/gtest.h>

#include "tests/e2e/layout.h"

namespace tessera::test {
namespace {

std::vector<std::string> pp(int64_t stages, int64_t chunks, std::vector<std::string> more = {}) {
  more.push_back("parallelism.pipeline_parallel=" + std::to_string(stages));
  more.push_back("parallelism.pipeline_parallel_interleave_num=" + std::to_string(chunks));
  more.push_back("parallelism.pipeline_parallel_layers_per_stage=auto");
  return more;
}

const std::string kOverlapP2p = "parallelism.pipeline_parallel_overlap_p2p=true";
const std::string kOverlapBf = "parallelism.pipeline_parallel_overlap_b_f=true";

using Param = std::tuple<std::string, Layout>;
class Pipeline : public testing::TestWithParam<Param> {};

TEST_P(Pipeline, EqualsOneRank) {
  const auto& [name, layout] = GetParam();
  const Config config = load_case(name, layout.set, layout.ranks);
  const auto run = train(config, layout.ranks, config.training.steps);
  expect_same_training(*run, one_rank(name), 1e-10);
}

INSTANTIATE_TEST_SUITE_P(
    Dense, Pipeline,
    testing::Combine(
        testing::ValuesIn(kDenseCases),
        testing::Values(
            Layout{"pp2_m1", 2, pp(2, 1, {local_batch(8)})},
            Layout{"pp2_m8", 2, pp(2, 1, {local_batch(1), kOverlapP2p})},
            Layout{"pp2v2_m4", 2, pp(2, 2, {local_batch(2), kOverlapBf})},
            Layout{"pp2v2_m1", 2, pp(2, 2, {local_batch(8)})},
            Layout{"pp4_m2", 4, pp(4, 1, {local_batch(4), kOverlapP2p, kOverlapBf})},
            Layout{"pp4_m8", 4, pp(4, 1, {local_batch(1)})},
            Layout{"pp2_shard2_always", 4, pp(2, 1, {local_batch(1), policy("always")})},
            Layout{"pp2v2_replicate2", 4, pp(2, 2, {local_batch(2), shard(1), kOverlapP2p})},
            Layout{"pp2_tp2", 4, pp(2, 1, {local_batch(2), tp(2)})},
            Layout{"pp2v2_tp2_shard2_never", 8,
                   pp(2, 2, {local_batch(1), tp(2), policy("never"), kOverlapBf})},
            Layout{"pp2_tp2_shard2_replicate2", 16, pp(2, 1, {local_batch(1), tp(2), shard(2)})})),
    case_and_layout_name);

}  // namespace
}  // namespace tessera::test
