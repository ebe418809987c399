// Muon over every layout: the weights after five steps are those of one rank; plans tell what it
// holds, sends and needs; a run that was ended and resumed is the unbroken one.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "tessera/comm/threads/run_ranks.h"
#include "tessera/planner/plan.h"
#include "tessera/train/open_training_data.h"
#include "tessera/train/run_report.h"
#include "tests/e2e/layout.h"
#include "tests/e2e/run_trainer.h"
#include "tests/support/temp_dir.h"

namespace tessera::test {
namespace {

using Set = std::vector<std::string>;

const std::string kAuto = "parallelism.pipeline_parallel_layers_per_stage=auto";
std::string pp(int64_t degree) { return "parallelism.pipeline_parallel=" + std::to_string(degree); }
std::string ep(int64_t degree) { return "parallelism.expert_parallel=" + std::to_string(degree); }

Set muon() {
  return {"optimizer.type=Muon", "optimizer.weight_decay=0.1", "lr_scheduler.learning_rate=0.01",
          "training.steps=5",    "training.max_norm=1.0",      "optimizer.qk_clip_enabled=false"};
}

struct MuonLayout {
  std::string file;
  Layout layout;
  int64_t batch = 8;
};
std::string batch_of(int64_t batch) {
  return "training.global_batch_size=" + std::to_string(batch);
}
std::ostream& operator<<(std::ostream& out, const MuonLayout& item) {
  return out << item.file << " " << item.layout;
}

const RunRecord& reference(const std::string& file, int64_t batch) {
  static std::map<std::pair<std::string, int64_t>, std::unique_ptr<RunRecord>> records;
  auto& record = records[{file, batch}];
  const Set one{batch_of(batch), local_batch(2)};
  if (!record) record = train(load_case(file, muon() + one, 1), 1, 5);
  return *record;
}

class MuonLayouts : public testing::TestWithParam<MuonLayout> {};

TEST_P(MuonLayouts, TrainsAsOneRankDoes) {
  const auto& [file, layout, batch] = GetParam();
  const Set set = muon() + layout.set + Set{batch_of(batch)};
  const auto run = train(load_case(file, set, layout.ranks), layout.ranks, 5);
  expect_same_training(*run, reference(file, batch), 1e-10);
}

TEST_P(MuonLayouts, IsPlannedToTheByte) {
  const auto& [file, layout, batch] = GetParam();
  const Set set = muon() + layout.set + Set{batch_of(batch)};
  const Config config = load_case(file, set, layout.ranks);
  const Plan plan = make_plan(config, layout.ranks);
  const auto ranks = static_cast<size_t>(layout.ranks);
  std::vector<int64_t> calls(ranks), bytes(ranks);
  TrainerOptions options;
  options.source = open_training_data(config);
  options.stop_after = 2;
  options.on_step = [&](const StepMetrics&, const ParamTable&, const DeviceMesh& mesh) {
    const auto& operations = mesh[Axis::kWorld].stats().operations;
    const auto sent = operations.find("all_to_all");
    if (sent == operations.end()) return;
    const auto rank = static_cast<size_t>(mesh.rank());
    calls[rank] = sent->second.calls - calls[rank];
    bytes[rank] = sent->second.bytes - bytes[rank];
  };
  run_ranks(static_cast<int>(ranks),
            [&](const ProcessGroup& world) { Trainer(config, world, options).run(); });
  const std::vector<int64_t> held = measure_memory(config, layout.ranks).persistent;
  double work = 0;
  for (size_t rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(plan.matrices[rank].sent, bytes[rank]) << "rank " << rank;
    EXPECT_EQ(2 * plan.matrices[rank].rounds, calls[rank]) << "rank " << rank;
    EXPECT_EQ(held[rank], plan.memory[rank].weights + plan.memory[rank].moments);
    work += plan.matrices[rank].flops;
  }
  // Nothing is iterated twice, and by no copies of a rank.
  double once = 0;
  for (const MatrixPlan& matrices : make_plan(load_case(file, muon(), 1), 1).matrices) {
    once += matrices.flops;
  }
  EXPECT_NEAR(work, once, 1e-9 * once);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, MuonLayouts,
    testing::Values(
        MuonLayout{"llama_sgd64", {"shard3", 3, {shard(3), local_batch(1)}}, 6},
        MuonLayout{"llama_sgd64", {"tp2", 2, {shard(-1), tp(2), local_batch(4)}}},
        MuonLayout{"llama_sgd64", {"pp2", 2, {shard(-1), pp(2), kAuto, local_batch(2)}}},
        MuonLayout{"llama_sgd64", {"replicas2_shard2_tp2", 8, {shard(2), tp(2), local_batch(2)}}},
        MuonLayout{"qwen3_tied64",
                   {"pp2_tp2_shard2", 8, {shard(2), pp(2), tp(2), kAuto, local_batch(2)}}},
        MuonLayout{"qwen3_moe64", {"ep2", 2, {shard(-1), ep(2), local_batch(4)}}},
        MuonLayout{"qwen3_moe64", {"ep2_tp2_shard2", 4, {shard(2), tp(2), ep(2), local_batch(4)}}},
        MuonLayout{"deepseek_v3_64", {"shard3", 3, {shard(3), local_batch(1)}}, 6},
        MuonLayout{"deepseek_v3_64",
                   {"tp2_ep2_shard2", 4, {shard(2), tp(2), ep(2), local_batch(4)}}},
        MuonLayout{"deepseek_v3_64",
                   {"pp2_ep2", 4, {shard(2), pp(2), ep(2), kAuto, local_batch(2)}}}),
    [](const auto& info) { return info.param.file + "_" + info.param.layout.name; });

// With a threshold that every head exceeds: the same on every layout, and not as without.
TEST(MuonRun, ClipsHeadsTheSameOnEveryLayout) {
  for (const std::string file : {"llama_sgd64", "deepseek_v3_64"}) {
    const Set clip{"optimizer.qk_clip_enabled=true", "optimizer.qk_clip_threshold=0.05"};
    const auto one = train(load_case(file, muon() + clip, 1), 1, 3);
    const auto without = train(load_case(file, muon(), 1), 1, 3);
    EXPECT_GT(std::abs(one->steps[2].loss - without->steps[2].loss), 1e-6) << file;
    EXPECT_EQ(one->steps[0].loss, without->steps[0].loss);
    for (const Layout& layout : {Layout{"shard2_tp2", 4, {shard(2), tp(2), local_batch(4)}},
                                 Layout{"pp2", 2, {shard(-1), pp(2), kAuto, local_batch(2)}}}) {
      SCOPED_TRACE(file + " " + layout.name);
      const Config config = load_case(file, muon() + clip + layout.set, layout.ranks);
      expect_same_training(*train(config, layout.ranks, 3), *one, 1e-9);
    }
  }
}

// The same matrices on the same ranks give the same bits, however often.
TEST(MuonRun, RepeatsBitForBit) {
  const Config config = load_case("llama_sgd64", muon() + Set{shard(2), local_batch(2)}, 4);
  expect_identical_training(*train(config, 4, 3), *train(config, 4, 3));
}

// Of a small batch the update is the fullest moment of a step.
TEST(MuonRun, PeakOfTheUpdateIsPlanned) {
  const Set small{"checkpoint.load_path=''",
                  "model.seq_length=16",
                  "train_dataset.dataloader.config.seq_length=16",
                  "model.vocab_size=256",
                  "model.intermediate_size=512",
                  local_batch(1)};
  int fullest = 0;  // ranks whose update needs most
  for (const Layout& layout :
       {Layout{"one", 1, {batch_of(1)}}, Layout{"shard3", 3, {shard(3), batch_of(3)}},
        Layout{"tp2", 2, {shard(-1), tp(2), batch_of(1)}}}) {
    const Config config = load_case("llama_sgd64", muon() + small + layout.set, layout.ranks);
    const Plan plan = make_plan(config, layout.ranks);
    const Measured measured = measure_memory(config, layout.ranks);
    for (size_t rank = 0; rank < measured.peak.size(); ++rank) {
      const auto peak = static_cast<double>(plan.memory[rank].peak);
      const int64_t update = plan.memory[rank].before_update + plan.matrices[rank].memory;
      if (plan.memory[rank].peak == update) ++fullest;
      EXPECT_NEAR(static_cast<double>(measured.peak[rank]), peak, 0.01 * peak)
          << layout.name << " rank " << rank;
    }
  }
  EXPECT_GE(fullest, 2);
}

// What a run measures of its updates for its last lines is what the plan says.
TEST(MuonRun, UpdatesTakeWhatIsPlanned) {
  for (const MuonLayout& item :
       {MuonLayout{"llama_sgd64", {"shard3", 3, {shard(3), local_batch(1)}}, 6},
        MuonLayout{"qwen3_moe64", {"ep2", 2, {shard(-1), ep(2), local_batch(4)}}}}) {
    const int64_t ranks = item.layout.ranks;
    const Config config =
        load_case(item.file, muon() + item.layout.set + Set{batch_of(item.batch)}, ranks);
    const Plan plan = make_plan(config, ranks);
    TrainerOptions options;
    options.source = open_training_data(config);
    std::string said;
    run_ranks(static_cast<int>(ranks), [&](const ProcessGroup& world) {
      TrainerOptions own = options;
      std::optional<RunReport> report;
      own.on_step = [&](const StepMetrics& metrics, const ParamTable&, const DeviceMesh&) {
        report->add(metrics);
      };
      Trainer trainer(config, world, own);
      report.emplace(trainer.mesh(), trainer.pipeline(), trainer.update_use());
      trainer.train_step();
      trainer.train_step();
      const UpdateUse& use = trainer.update_use();
      const auto rank = static_cast<size_t>(world.rank());
      EXPECT_EQ(use.moments, plan.memory[rank].moments) << item << " rank " << rank;
      EXPECT_DOUBLE_EQ(use.flops, plan.matrices[rank].flops) << item << " rank " << rank;
      const auto memory = static_cast<double>(plan.memory[rank].update);
      EXPECT_NEAR(static_cast<double>(use.memory), memory, 0.05 * memory)
          << item << " rank " << rank;
      const std::string text = report->text(config);
      if (world.rank() == 0) said = text;
    });
    for (const char* line : {"  moments ", "  products of an update ", "  memory of an update, "}) {
      EXPECT_NE(said.find(line), std::string::npos) << said;
    }
  }
}

// What adamw_include names is AdamW's; the rest changes as if it had not been named.
TEST(MuonRun, IncludeChoosesByName) {
  const auto held = [](const Set& more) {
    const Config config = load_case("llama_sgd64", muon() + more, 1);
    const int64_t planned = make_plan(config, 1).memory[0].moments;
    const Measured measured = measure_memory(config, 1);
    EXPECT_EQ(measured.persistent[0], make_plan(config, 1).memory[0].weights + planned);
    return planned;
  };
  const int64_t usual = held({});
  EXPECT_EQ(held({"optimizer.adamw_include=['*embed_tokens*', '*lm_head*']"}), usual);
  EXPECT_EQ(held({"optimizer.adamw_include=['*word_embeddings*', '*output_layer*']"}), usual);
  EXPECT_LT(held({"optimizer.adamw_include=[]"}), usual);
  EXPECT_GT(held({"optimizer.adamw_include='*'"}), usual);
}

// In any layout, saved in one and resumed in another; in the same one to the last bit.
TEST(MuonRun, ResumesInAnyLayout) {
  const Layout saved{"shard2", 2, {shard(2), local_batch(4)}};
  const std::vector<Layout> resumed = {
      saved, {"tp2", 2, {shard(-1), tp(2), local_batch(8)}}, {"one", 1, {local_batch(8)}}};
  const TempDir folder;
  const std::string path = folder.path().string();
  const auto config = [&](const Layout& layout, const Set& more) {
    return load_case("llama_sgd64", muon() + layout.set + more, layout.ranks);
  };
  run_until(config(saved, {"checkpoint.enable_save=true", "checkpoint.save_path='" + path + "'"}),
            saved.ranks, 2);
  const auto whole = run_until(config(saved, {}), saved.ranks, 4);
  for (const Layout& layout : resumed) {
    SCOPED_TRACE(layout.name);
    const auto rest = run_until(
        config(layout, {"checkpoint.load_path='" + path + "'", "checkpoint.no_load_optim=false"}),
        layout.ranks, 4);
    ASSERT_EQ(rest->steps.size(), 2U);
    const bool same = layout.name == saved.name;
    for (const auto& [name, value] : whole->values) {
      if (same) {
        EXPECT_TRUE(at::equal(rest->values.at(name), value)) << name;
      } else {
        EXPECT_LT((rest->values.at(name) - value).abs().max().item<double>(), 1e-10) << name;
      }
    }
  }
}

}  // namespace
}  // namespace tessera::test
