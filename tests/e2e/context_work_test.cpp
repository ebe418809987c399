// The attention work that every rank of a context-parallel group has done, as its timeline holds
// it: the pairs that the plan says, all ranks together those that the mask leaves.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tessera/comm/threads/run_ranks.h"
#include "tessera/planner/plan.h"
#include "tessera/train/open_training_data.h"
#include "tessera/train/trainer.h"
#include "tests/e2e/layout.h"

namespace tessera::test {
namespace {

std::vector<std::string> cp(int64_t degree, const std::vector<std::string>& more) {
  std::vector<std::string> set = more;
  set.push_back("parallelism.context_parallel=" + std::to_string(degree));
  set.push_back("training.steps=1");
  return set;
}

// [rank] query-key pairs of all forwards of the first step, a head.
std::vector<int64_t> pairs_of_a_step(const Config& config, int64_t ranks) {
  std::vector<int64_t> forward(static_cast<size_t>(ranks)), backward(forward.size());
  TrainerOptions options;
  options.source = open_training_data(config);
  run_ranks(static_cast<int>(ranks), [&](const ProcessGroup& world) {
    Timeline timeline;
    TrainerOptions own = options;
    own.timeline = &timeline;
    Trainer(config, world, own).run();
    const auto rank = static_cast<size_t>(world.rank());
    for (const Timeline::Event& event : timeline.events()) {
      if (std::string(event.kind) != "attention") continue;
      EXPECT_GE(event.micro_batch, 0);
      (event.what == "forward" ? forward : backward)[rank] += event.work;
    }
  });
  EXPECT_EQ(forward, backward);
  return forward;
}

double most_over_mean(const std::vector<int64_t>& work) {
  const auto sum = std::accumulate(work.begin(), work.end(), int64_t{0});
  return static_cast<double>(*std::max_element(work.begin(), work.end()) *
                             static_cast<int64_t>(work.size())) /
         static_cast<double>(sum);
}

TEST(ContextWork, IsWhatThePlanSays) {
  for (const char* method : {"colossal", "ulysses", "hybrid"}) {
    for (const char* balance : {"auto", "contiguous"}) {
      const Config config =
          load_case("llama_sgd64",
                    cp(4, {local_batch(4), "model.use_attn_mask_compression=true",
                           std::string("parallelism.context_parallel_method=") + method,
                           std::string("parallelism.ulysses_degree_in_cp=") +
                               (std::string(method) == "hybrid" ? "2" : "4"),
                           std::string("parallelism.context_parallel_balance=") + balance}),
                    4);
      const Plan plan = make_plan(config, 4);
      ASSERT_TRUE(plan.context.has_value());
      std::vector<int64_t> planned;
      for (const double pairs : plan.context->pairs) {
        planned.push_back(static_cast<int64_t>(pairs) * plan.batch.effective_batch *
                          config.model.num_hidden_layers);
      }
      EXPECT_EQ(pairs_of_a_step(config, 4), planned) << method << " " << balance;
      // Not the square: what a causal mask leaves of it.
      const int64_t s = config.model.seq_length;
      EXPECT_EQ(std::accumulate(planned.begin(), planned.end(), int64_t{0}),
                s * (s + 1) / 2 * plan.batch.effective_batch * config.model.num_hidden_layers);
    }
  }
}

TEST(ContextWork, DocumentsAreSharedByTheirWork) {
  const auto work = [](const std::string& balance) {
    return pairs_of_a_step(
        load_case("qwen3_eod64",
                  cp(4, {local_batch(4), "parallelism.context_parallel_balance=" + balance}), 4),
        4);
  };
  const auto contiguous = work("contiguous"), head_tail = work("head_tail"), equal = work("auto");
  const auto sum = [](const std::vector<int64_t>& w) {
    return std::accumulate(w.begin(), w.end(), int64_t{0});
  };
  EXPECT_EQ(sum(contiguous), sum(equal));
  EXPECT_EQ(sum(head_tail), sum(equal));
  EXPECT_LE(most_over_mean(equal), most_over_mean(head_tail));
  EXPECT_LT(most_over_mean(equal), most_over_mean(contiguous));
}

}  // namespace
}  // namespace tessera::test
