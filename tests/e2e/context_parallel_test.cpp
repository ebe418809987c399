// Context parallelism trains the same model as one rank: every method, exchange and balance.

#include <gtest/gtest.h>

#include "tests/e2e/layout.h"

namespace tessera::test {
namespace {

std::vector<std::string> cp(int64_t degree, const std::string& method, int64_t ulysses,
                            std::vector<std::string> more) {
  more.push_back("parallelism.context_parallel=" + std::to_string(degree));
  more.push_back("parallelism.context_parallel_method=" + method);
  if (ulysses > 0) {
    more.push_back("parallelism.ulysses_degree_in_cp=" + std::to_string(ulysses));
  }
  return more;
}

const std::string kAsync = "parallelism.context_parallel_async=true";
std::string exchange(const std::string& how) {
  return "parallelism.context_parallel_exchange=" + how;
}
std::string balance(const std::string& how) {
  return "parallelism.context_parallel_balance=" + how;
}

// The compressed mask that context parallelism asks for, by kind of data.
std::vector<std::string> with_mask(const std::string& name, std::vector<std::string> set) {
  if (name != "qwen3_eod64") set.push_back("model.use_attn_mask_compression=true");
  return set;
}

using Param = std::tuple<std::string, Layout>;
class ContextParallel : public testing::TestWithParam<Param> {};

TEST_P(ContextParallel, EqualsOneRank) {
  const auto& [name, layout] = GetParam();
  const Config config = load_case(name, with_mask(name, layout.set), layout.ranks);
  const auto run = train(config, layout.ranks, config.training.steps);
  expect_same_training(*run, one_rank(name), 1e-10);
}

INSTANTIATE_TEST_SUITE_P(
    Dense, ContextParallel,
    testing::Combine(
        testing::ValuesIn(kDenseCases),
        testing::Values(
            Layout{"colossal2", 2, cp(2, "colossal", 0, {local_batch(2)})},
            Layout{"colossal4_ring", 4, cp(4, "colossal", 0, {local_batch(4), exchange("ring")})},
            Layout{"colossal4_contiguous_shard2", 8,
                   cp(4, "colossal", 0, {local_batch(1), balance("contiguous")})},
            Layout{"colossal2_head_tail_ring_replicate2", 4,
                   cp(2, "colossal", 0,
                      {local_batch(2), shard(1), balance("head_tail"), exchange("ring")})},
            Layout{"ulysses2_async", 2, cp(2, "ulysses", 2, {local_batch(2), kAsync})},
            Layout{"ulysses4_copies", 4, cp(4, "ulysses", 4, {local_batch(2)})},
            Layout{"hybrid4", 4, cp(4, "hybrid", 2, {local_batch(2)})},
            Layout{"hybrid8_async_ring", 8,
                   cp(8, "hybrid", 2, {local_batch(4), kAsync, exchange("ring")})},
            Layout{"hybrid8_ulysses4", 8, cp(8, "hybrid", 4, {local_batch(2), kAsync})},
            Layout{"ulysses2_replicate2", 4, cp(2, "ulysses", 2, {local_batch(2), shard(1)})},
            Layout{"ulysses2_pp2v2_async", 4,
                   cp(2, "ulysses", 2,
                      {local_batch(2), kAsync, "parallelism.pipeline_parallel=2",
                       "parallelism.pipeline_parallel_interleave_num=2",
                       "parallelism.pipeline_parallel_layers_per_stage=auto"})},
            Layout{
                "hybrid4_shard2_allgather_head_tail", 8,
                cp(4, "hybrid", 2, {local_batch(1), exchange("allgather"), balance("head_tail")})},
            Layout{"colossal2_tp2", 4, cp(2, "colossal", 0, {local_batch(2), tp(2)})},
            Layout{"ulysses2_tp2_async", 4, cp(2, "ulysses", 2, {local_batch(2), tp(2), kAsync})},
            Layout{"colossal2_pp2", 4,
                   cp(2, "colossal", 0,
                      {local_batch(2), exchange("ring"), "parallelism.pipeline_parallel=2",
                       "parallelism.pipeline_parallel_layers_per_stage=auto"})})),
    case_and_layout_name);

}  // namespace
}  // namespace tessera::test
