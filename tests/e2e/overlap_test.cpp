// Communication behind computation where ranks are processes: the same training, and what a trace
// shows of it.

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "tessera/train/open_training_data.h"
#include "tessera/train/trainer.h"
#include "tests/comm/process_ranks.h"
#include "tests/e2e/layout.h"

namespace tessera::test {
namespace {

using Sets = std::vector<std::string>;

const std::string kOverlap = "parallelism.pipeline_parallel_overlap_b_f=";
const std::string kMc2 = "parallelism.enable_mc2=true";

Sets pipeline(int64_t v, Sets set) {
  set.emplace_back("parallelism.pipeline_parallel=2");
  set.emplace_back("parallelism.pipeline_parallel_layers_per_stage=auto");
  set.push_back("parallelism.pipeline_parallel_interleave_num=" + std::to_string(v));
  return set;
}

Sets with(Sets set, const std::string& more) {
  set.push_back(more);
  return set;
}

// As train(), by ranks that meet as processes.
std::unique_ptr<RunRecord> train_by(Transport transport, Config config, int64_t ranks,
                                    int64_t steps) {
  config.checkpoint.enable_save = false;
  auto record = std::make_unique<RunRecord>();
  TrainerOptions options;
  options.source = open_training_data(config);
  options.stop_after = steps;
  record->follow(options, steps);
  run_process_ranks(static_cast<int>(ranks), transport,
                    [&](const ProcessGroup& world) { Trainer(config, world, options).run(); });
  return record;
}

struct OverlapCase {
  std::string name;
  std::string file;
  int64_t ranks;
  Sets set;
};

class OverlapOfProcesses : public testing::TestWithParam<OverlapCase> {};

TEST_P(OverlapOfProcesses, ChangesNoBit) {
  const OverlapCase& c = GetParam();
  const auto run = [&](Transport transport, const std::string& overlap) {
    return train_by(transport, load_case(c.file, with(c.set, kOverlap + overlap), c.ranks), c.ranks,
                    2);
  };
  const auto plain = run(Transport::kSharedMemory, "false");
  expect_identical_training(*run(Transport::kSharedMemory, "true"), *plain);
  expect_identical_training(*run(Transport::kLocal, "true"), *plain);
}

const std::string kEp2 = "parallelism.expert_parallel=2";
const std::string kRing = "parallelism.context_parallel_exchange=ring";

INSTANTIATE_TEST_SUITE_P(
    Layouts, OverlapOfProcesses,
    testing::Values(
        OverlapCase{"tp2", "llama_sgd64", 4, pipeline(1, {tp(2), local_batch(2)})},
        OverlapCase{"tied_v2_shard2_always", "qwen3_tied64", 4,
                    pipeline(2, {shard(2), local_batch(1), policy("always")})},
        OverlapCase{"recomputed_v2_shard2_always", "qwen3_tied64", 4,
                    pipeline(2, {shard(2), local_batch(1), policy("always"),
                                 "recompute={mode: full, full_recompute_layer: ['0-2']}"})},
        OverlapCase{"ring_cp2", "llama_sgd64", 4,
                    pipeline(1, {"parallelism.context_parallel=2", kRing,
                                 "model.use_attn_mask_compression=true", local_batch(2)})},
        OverlapCase{"experts_ep2_tp2", "qwen3_moe_aux64", 4,
                    pipeline(1, {kEp2, tp(2), local_batch(2)})},
        OverlapCase{"deepseek_ep2_shard2", "deepseek_v3_64", 4,
                    pipeline(1, {kEp2, shard(2), local_batch(2)})}),
    [](const testing::TestParamInfo<OverlapCase>& info) { return info.param.name; });

// Waits of one rank in one step, in the order in which they began.
struct Waits {
  std::vector<Timeline::Event> of_backward, of_forward;
  std::vector<std::string> order;
};

std::vector<Waits> trace_waits(const Config& config, int64_t ranks) {
  std::vector<Waits> result(static_cast<size_t>(ranks));
  TrainerOptions options;
  options.source = open_training_data(config);
  run_process_ranks(static_cast<int>(ranks), Transport::kSharedMemory,
                    [&](const ProcessGroup& world) {
                      Timeline timeline;
                      TrainerOptions own = options;
                      own.timeline = &timeline;
                      Trainer trainer(config, world, own);
                      trainer.train_step();
                      std::vector<Timeline::Event> events = timeline.events();
                      std::ranges::stable_sort(events, {}, &Timeline::Event::begin_ns);
                      Waits& waits = result[static_cast<size_t>(world.rank())];
                      for (const Timeline::Event& e : events) {
                        if (std::string(e.kind) != "wait") continue;
                        (e.second ? waits.of_forward : waits.of_backward).push_back(e);
                        waits.order.push_back((e.second ? "forward " : "backward ") + e.what);
                      }
                    });
  return result;
}

// Waits for `what` during which the other part came to a wait of its own: it had computed.
int64_t hidden(const std::vector<Timeline::Event>& waits, const std::string& what,
               const std::vector<Timeline::Event>& others) {
  return std::ranges::count_if(waits, [&](const Timeline::Event& wait) {
    return wait.what == what && std::ranges::any_of(others, [&](const Timeline::Event& other) {
             return other.begin_ns > wait.begin_ns &&
                    other.begin_ns < wait.begin_ns + wait.duration_ns;
           });
  });
}

int64_t of_kind(const std::vector<Timeline::Event>& waits, const std::string& what) {
  return std::ranges::count_if(waits, [&](const auto& wait) { return wait.what == what; });
}

// The all-to-all of one micro-batch is under way while the other one computes, and the same for
// tensor-parallel gathers and reductions. The order of both is the same on all ranks of a stage.
TEST(Overlap, OneComputesWhileTheOtherWaits) {
  const Config config =
      load_case("qwen3_moe64", pipeline(1, {kEp2, tp(2), local_batch(1), kOverlap + "true"}), 4);
  const std::vector<Waits> ranks = trace_waits(config, 4);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    SCOPED_TRACE(testing::Message() << "rank " << rank);
    const Waits& w = ranks[rank];
    for (const char* what : {"all_to_all", "all_gather", "reduce_scatter"}) {
      SCOPED_TRACE(what);
      const int64_t of_both = of_kind(w.of_backward, what) + of_kind(w.of_forward, what);
      EXPECT_GT(of_both, 0);
      EXPECT_GE(2 * (hidden(w.of_backward, what, w.of_forward) +
                     hidden(w.of_forward, what, w.of_backward)),
                of_both);
    }
    EXPECT_EQ(w.order, ranks[rank / 2 * 2].order);
  }
}

TEST(Overlap, ProductsBehindTheirExchangesAreTheSame) {
  const std::vector<std::pair<std::string, Sets>> cases = {
      {"llama_sgd64", {tp(2), shard(2)}},
      {"qwen3_tied64", {tp(4)}},
      {"deepseek_v3_64", {tp(2), kEp2, shard(2)}}};
  for (const auto& [file, set] : cases) {
    SCOPED_TRACE(file);
    const Config config = load_case(file, with(with(set, kMc2), local_batch(2)), 4);
    for (const Transport transport : {Transport::kSharedMemory, Transport::kGloo}) {
      expect_same_training(*train_by(transport, config, 4, config.training.steps), one_rank(file),
                           1e-10);
    }
  }
}

}  // namespace
}  // namespace tessera::test
