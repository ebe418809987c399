// What every rank of a context-parallel group sends for attention is what the plan says.

#include <gtest/gtest.h>

#include <map>

#include "tessera/comm/threads/run_ranks.h"
#include "tessera/planner/plan.h"
#include "tessera/train/open_training_data.h"
#include "tessera/train/trainer.h"
#include "tests/e2e/layout.h"

namespace tessera::test {
namespace {

using Operations = std::map<std::string, TrafficPlan::Count>;

// [rank] what the second step sends over the cp axis.
std::vector<Operations> sent_over_cp(const Config& config, int64_t ranks) {
  std::vector<Operations> sent(static_cast<size_t>(ranks));
  TrainerOptions options;
  options.source = open_training_data(config);
  options.stop_after = 2;
  options.on_step = [&](const StepMetrics& step, const ParamTable&, const DeviceMesh& mesh) {
    const int64_t sign = step.step == 1 ? -1 : 1;
    for (const auto& [name, count] : mesh[Axis::kCp].stats().operations) {
      if (count.bytes == 0) continue;
      TrafficPlan::Count& sum = sent[static_cast<size_t>(mesh.rank())][name];
      sum.calls += sign * count.calls;
      sum.bytes += sign * count.bytes;
    }
  };
  run_ranks(static_cast<int>(ranks),
            [&](const ProcessGroup& world) { Trainer(config, world, options).run(); });
  return sent;
}

std::string text_of(const Operations& operations) {
  std::string text;
  for (const auto& [name, count] : operations) {
    text += name + ": " + std::to_string(count.bytes) + " bytes in " + std::to_string(count.calls) +
            "\n";
  }
  return text;
}

void expect_the_planned(const std::string& file, const Layout& layout) {
  const Config config = load_case(file, layout.set, layout.ranks);
  const Plan plan = make_plan(config, layout.ranks);
  const auto sent = sent_over_cp(config, layout.ranks);
  for (size_t rank = 0; rank < sent.size(); ++rank) {
    EXPECT_EQ(text_of(plan.traffic[rank].at(Axis::kCp).operations), text_of(sent[rank]))
        << "rank " << rank;
  }
}

class ContextBytes : public testing::TestWithParam<Layout> {};

TEST_P(ContextBytes, AreThePlannedOnes) { expect_the_planned("llama_sgd64", GetParam()); }

std::vector<std::string> of(int64_t degree, const std::string& method,
                            std::vector<std::string> more) {
  more.push_back(local_batch(2));
  more.push_back("model.use_attn_mask_compression=true");
  more.push_back("parallelism.context_parallel=" + std::to_string(degree));
  more.push_back("parallelism.context_parallel_method=" + method);
  return more;
}
const std::string kRing = "parallelism.context_parallel_exchange=ring";
const std::string kGather = "parallelism.context_parallel_exchange=allgather";
const std::string kTwo = "parallelism.ulysses_degree_in_cp=2";
const std::string kContiguous = "parallelism.context_parallel_balance=contiguous";

INSTANTIATE_TEST_SUITE_P(
    Methods, ContextBytes,
    testing::Values(Layout{"ring", 4, of(4, "colossal", {kRing})},
                    Layout{"ring_contiguous", 4, of(4, "colossal", {kRing, kContiguous})},
                    Layout{"allgather", 4, of(4, "colossal", {kGather})},
                    Layout{"ulysses", 2, of(2, "ulysses", {})},
                    Layout{"ulysses_copies_async", 4,
                           of(4, "ulysses", {"parallelism.context_parallel_async=true"})},
                    Layout{"hybrid_ring", 4, of(4, "hybrid", {kTwo, kRing})},
                    Layout{"hybrid_allgather", 4, of(4, "hybrid", {kTwo, kGather})},
                    Layout{"ring_tp2", 4, of(2, "colossal", {kRing, tp(2)})},
                    Layout{"recomputed", 2,
                           of(2, "colossal",
                              {kGather, "recompute={mode: full, full_recompute_layer: ['0-1']}"})}),
    layout_name);

// A window of 16 tokens of 64: of four pieces each sees itself and the one before it, of eight
// pieces in two a rank also those at their ends.
TEST(ContextBytesOfWindows, WhatIsOutsideIsNotSent) {
  expect_the_planned("mistral_window64",
                     {"contiguous", 4, of(4, "colossal", {kRing, kContiguous})});
  expect_the_planned("mistral_window64", {"head_tail", 4, of(4, "colossal", {kRing})});
}

// Values are shorter than keys: each travels in its own size.
TEST(ContextBytesOfLatentAttention, AreThePlannedOnes) {
  expect_the_planned("deepseek_v3_64", {"ring", 2, of(2, "colossal", {kRing})});
  expect_the_planned("deepseek_v3_64", {"allgather", 2, of(2, "colossal", {kGather})});
}

}  // namespace
}  // namespace tessera::test
