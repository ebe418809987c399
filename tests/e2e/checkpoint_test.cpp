// A run that is saved and resumed is the run that was not interrupted.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tessera/base/error.h"
#include "tessera/checkpoint/checkpoint_reader.h"
#include "tessera/checkpoint/element_scalar.h"
#include "tessera/config/load.h"
#include "tessera/storage/iteration_folder.h"
#include "tessera/train/run.h"
#include "tests/e2e/layout.h"
#include "tests/e2e/run_trainer.h"
#include "tests/support/case_path.h"
#include "tests/support/json_files.h"
#include "tests/support/near_rel.h"
#include "tests/support/temp_dir.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string save_to(const fs::path& root) { return "checkpoint.save_path='" + root.string() + "'"; }
std::string load_from(const fs::path& root) {
  return "checkpoint.load_path='" + root.string() + "'";
}

std::string every(int64_t steps) {
  std::string set = "checkpoint.save_interleaved_steps=";
  return set.append(std::to_string(steps));
}

const std::vector<std::string> kSaving = {"checkpoint.enable_save=true",
                                          "checkpoint.no_load_optim=false"};

// Steps and values of `run` are those of the last steps of `whole`. 0: bit for bit.
void expect_continues(const RunRecord& run, const RunRecord& whole, double tolerance) {
  ASSERT_LE(run.steps.size(), whole.steps.size());
  const size_t skipped = whole.steps.size() - run.steps.size();
  for (size_t i = 0; i < run.steps.size(); ++i) {
    const StepMetrics& a = run.steps[i];
    const StepMetrics& b = whole.steps[skipped + i];
    EXPECT_EQ(a.step, b.step);
    EXPECT_EQ(a.samples, b.samples);
    EXPECT_EQ(a.lr, b.lr);
    EXPECT_NEAR_REL(a.loss, b.loss, tolerance) << "step " << a.step;
    EXPECT_NEAR_REL(a.grad_norm, b.grad_norm, tolerance) << "step " << a.step;
  }
  EXPECT_EQ(run.values.size(), whole.values.size());
  for (const auto& [name, value] : whole.values) {
    ASSERT_TRUE(run.values.contains(name)) << name;
    if (tolerance == 0) {
      EXPECT_TRUE(at::equal(run.values.at(name), value)) << name;
    } else {
      const double worst = (run.values.at(name) - value).abs().max().item<double>();
      EXPECT_LE(worst, tolerance * value.norm().item<double>()) << name;
    }
  }
}

at::Tensor whole_tensor(CheckpointReader& reader, const StoredTensor& stored) {
  at::Tensor tensor = at::empty(stored.shape, at::dtype(scalar_type(stored.dtype)));
  reader.read_box(stored, {std::vector<int64_t>(stored.shape.size(), 0), stored.shape}, tensor);
  return tensor;
}

// Weights and moments of two checkpoints. 0: bit for bit.
void expect_same_checkpoint(const fs::path& folder, const fs::path& reference, double tolerance) {
  CheckpointReader a(folder), b(reference);
  for (const auto member : {&Manifest::weights, &Manifest::state}) {
    const auto& tensors = b.manifest().*member;
    EXPECT_EQ((a.manifest().*member).size(), tensors.size());
    EXPECT_FALSE(tensors.empty());
    for (const auto& [name, stored] : tensors) {
      const at::Tensor x = whole_tensor(a, (a.manifest().*member).at(name));
      const at::Tensor y = whole_tensor(b, stored);
      if (tolerance == 0) {
        EXPECT_TRUE(at::equal(x, y)) << name;
      } else {
        const double worst = (x - y).abs().max().item<double>();
        EXPECT_LE(worst, tolerance * y.norm().item<double>()) << name;
      }
    }
  }
  EXPECT_EQ(a.manifest().position.samples, b.manifest().position.samples);
  EXPECT_EQ(a.manifest().position.updates, b.manifest().position.updates);
}

std::vector<std::string> pp(int64_t stages, int64_t chunks) {
  return {"parallelism.pipeline_parallel=" + std::to_string(stages),
          "parallelism.pipeline_parallel_interleave_num=" + std::to_string(chunks),
          "parallelism.pipeline_parallel_layers_per_stage=auto"};
}

const std::vector<Layout> kLayouts = {
    {"one", 1, {local_batch(2)}},
    {"shard4", 4, {shard(4), local_batch(1)}},
    {"replicate2_shard2", 4, {shard(2), local_batch(2)}},
    {"tp4_copies", 4, {tp(4), local_batch(2)}},
    {"tp2_shard2", 4, {tp(2), shard(2), local_batch(1)}},
    {"pp2v2", 2, pp(2, 2) + std::vector{local_batch(2)}},
    {"pp2_tp2_shard2", 8, pp(2, 1) + std::vector{tp(2), shard(2), local_batch(1)}},
    {"cp2_tp2",
     4,
     {"parallelism.context_parallel=2", "model.use_attn_mask_compression=true", tp(2), shard(-1),
      local_batch(2)}},
};

std::string ep(int64_t degree) { return "parallelism.expert_parallel=" + std::to_string(degree); }

const std::vector<Layout> kExpertLayouts = {
    {"one", 1, {local_batch(2)}},
    {"ep4", 4, {ep(4), shard(-1), local_batch(1)}},
    {"ep2_replicate2", 4, {ep(2), shard(2), local_batch(2)}},
    {"ep4_efsdp2", 8, {ep(4), shard(-1), local_batch(1)}},
    {"tp2_shard2", 4, {tp(2), shard(-1), local_batch(1)}},
    {"pp2_tp2_ep2", 4, pp(2, 1) + std::vector{tp(2), ep(2), local_batch(2)}},
    {"ep4_nodes2",
     4,
     {"parallelism.moe_token_dispatcher_type=alltoall_deredundancy",
      "parallelism.npu_nums_per_device=2", ep(4), shard(-1), local_batch(1)}},
};

// Two experts of a rank over four: each rank holds rows of both.
const std::vector<Layout> kFewExpertsLayouts = {
    {"one", 1, {local_batch(2)}},
    {"ep2_efsdp4", 8, {ep(2), shard(-1), local_batch(1)}},
};

// A reference run with AdamW, and layouts that save and load it.
struct Family {
  std::string name;
  std::string run;
  std::vector<std::string> set;
  const std::vector<Layout>& layouts;
};

const std::vector<Family> kFamilies = {
    {"Dense", "llama_adamw64", {}, kLayouts},
    {"Experts",
     "deepseek_v3_64",
     {"optimizer.type=AdamW", "lr_scheduler.learning_rate=0.003",
      "model.moe_router_bias_update_rate=0.01"},
     kExpertLayouts},
    {"FewExperts",
     "qwen3_moe_aux64",
     {"optimizer.type=AdamW", "lr_scheduler.learning_rate=0.003", "model.num_experts=4",
      "checkpoint.load_path=''"},
     kFewExpertsLayouts},
};

Config resumed(const Layout& layout, const std::vector<std::string>& set,
               const std::string& name = "llama_adamw64") {
  return load_case(name, layout.set + kSaving + set, layout.ranks);
}

constexpr int64_t kSavedAt = 3, kLast = 5;

// Every layout of a family, saved in the middle of a training that goes on.
struct SavedRuns {
  TempDir root;
  std::map<std::string, std::unique_ptr<RunRecord>> whole;

  explicit SavedRuns(const Family& family) {
    for (const Layout& layout : family.layouts) {
      const std::vector<std::string> saving = {save_to(root / layout.name), every(kSavedAt)};
      whole[layout.name] =
          run_until(resumed(layout, family.set + saving, family.run), layout.ranks, kLast);
    }
  }
  static SavedRuns& of(const Family& family) {
    static std::map<std::string, std::unique_ptr<SavedRuns>> runs;
    std::unique_ptr<SavedRuns>& found = runs[family.name];
    if (!found) found = std::make_unique<SavedRuns>(family);
    return *found;
  }
};

struct Pair {
  const Family* family;
  size_t saved, loaded;
};
std::ostream& operator<<(std::ostream& out, const Pair& pair) {
  return out << pair.family->layouts[pair.saved].name << " into "
             << pair.family->layouts[pair.loaded].name;
}

// All pairs, or those in which every layout is saved and loaded.
std::vector<Pair> pairs_of_layouts() {
  const char* asked = std::getenv("TESSERA_MATRIX");
  const bool all = asked != nullptr && std::string(asked) == "full";
  std::vector<Pair> pairs;
  for (const Family& family : kFamilies) {
    const size_t count = family.layouts.size();
    for (size_t saved = 0; saved < count; ++saved) {
      for (size_t loaded = 0; loaded < count; ++loaded) {
        const size_t apart = (loaded + count - saved) % count;
        if (all || apart <= 1 || apart == 3) pairs.push_back({&family, saved, loaded});
      }
    }
  }
  return pairs;
}

std::string pair_name(const testing::TestParamInfo<Pair>& info) {
  const auto& layouts = info.param.family->layouts;
  return info.param.family->name + "_" + layouts[info.param.saved].name + "_into_" +
         layouts[info.param.loaded].name;
}

class ResumeMatrix : public testing::TestWithParam<Pair> {};

TEST_P(ResumeMatrix, GoesOnAsIfNotInterrupted) {
  const Family& family = *GetParam().family;
  SavedRuns& runs = SavedRuns::of(family);
  const Layout& saved = family.layouts[GetParam().saved];
  const Layout& loaded = family.layouts[GetParam().loaded];
  const TempDir again;
  const std::vector<std::string> resuming = {
      load_from(runs.root / saved.name / iteration_name(kSavedAt)), save_to(again.path())};
  const auto run =
      run_until(resumed(loaded, family.set + resuming, family.run), loaded.ranks, kLast);
  const double tolerance = saved.name == loaded.name ? 0 : 1e-10;
  expect_continues(*run, *runs.whole.at(saved.name), tolerance);
  expect_same_checkpoint(again / iteration_name(kLast),
                         runs.root / saved.name / iteration_name(kLast), tolerance);
}

INSTANTIATE_TEST_SUITE_P(Layouts, ResumeMatrix, testing::ValuesIn(pairs_of_layouts()), pair_name);

TEST(Resume, TheSecondAndTheThirdTimeTooBitForBit) {
  const Layout layout{"", 4, {tp(2), shard(2), local_batch(1)}};
  const TempDir straight, parts;
  const auto whole = run_until(resumed(layout, {save_to(straight.path())}), layout.ranks, 6);
  std::vector<std::string> more = {save_to(parts.path())};
  for (const int64_t last : {2, 4, 6}) {
    const auto run = run_until(resumed(layout, more), layout.ranks, last);
    EXPECT_EQ(run->steps.size(), 2u);
    if (last == 6) expect_continues(*run, *whole, 0);
    more = {save_to(parts.path()), load_from(parts.path())};
  }
  expect_same_checkpoint(parts / iteration_name(6), straight / iteration_name(6), 0);
  EXPECT_EQ(read_manifest(parts / iteration_name(6)).kept, (std::vector<int64_t>{2, 4, 6}));
}

TEST(Resume, ATiedModelOverAPipeline) {
  const Layout layout{"", 4, pp(2, 1) + std::vector{tp(2), local_batch(2)}};
  const TempDir root;
  const auto whole =
      run_until(resumed(layout, {save_to(root.path()), "checkpoint.save_interleaved_steps=2"},
                        "qwen3_tied64"),
                layout.ranks, 4);
  EXPECT_FALSE(read_manifest(root / iteration_name(2)).weights.contains("lm_head.weight"));
  for (const Layout& other : {layout, kLayouts[0], kLayouts[4]}) {
    const TempDir again;
    const auto run =
        run_until(resumed(other, {load_from(root / iteration_name(2)), save_to(again.path())},
                          "qwen3_tied64"),
                  other.ranks, 4);
    expect_continues(*run, *whole, other.name.empty() ? 0 : 1e-10);
  }
}

// Weights of two bytes between steps; what is saved are their float32 masters.
TEST(Resume, NarrowWeightsKeepTheirMasters) {
  const Layout layout{"", 4, {tp(2), shard(2), local_batch(1)}};
  const std::vector<std::string> narrow = {"model.params_dtype=bfloat16",
                                           "model.embedding_params_dtype=bfloat16",
                                           "model.compute_dtype=bfloat16"};
  const TempDir root, again;
  const auto whole =
      run_until(resumed(layout, narrow + std::vector<std::string>{save_to(root.path()), every(2)},
                        "llama_adamw32"),
                layout.ranks, 4);
  EXPECT_EQ(read_manifest(root / iteration_name(2)).weights.at("lm_head.weight").dtype,
            ElementType::kF32);
  const auto run =
      run_until(resumed(layout,
                        narrow + std::vector<std::string>{load_from(root / iteration_name(2)),
                                                          save_to(again.path())},
                        "llama_adamw32"),
                layout.ranks, 4);
  expect_continues(*run, *whole, 0);
  expect_same_checkpoint(again / iteration_name(4), root / iteration_name(4), 0);
}

TEST(Resume, AsynchronousSavingChangesNothing) {
  const Layout& layout = kLayouts[2];
  const TempDir sync, async;
  const std::vector<std::string> each_step = {"checkpoint.save_interleaved_steps=1",
                                              "checkpoint.save_max=10"};
  run_until(resumed(layout, each_step + std::vector{save_to(sync.path())}), layout.ranks, 5);
  run_until(resumed(layout, each_step + std::vector<std::string>{save_to(async.path()),
                                                                 "checkpoint.async_save=true"}),
            layout.ranks, 5);
  for (int64_t step = 1; step <= 5; ++step) {
    expect_same_checkpoint(async / iteration_name(step), sync / iteration_name(step), 0);
  }
}

TEST(Resume, ABatchOfAnotherSizeIsCountedInSamples) {
  const TempDir root, again;
  const Layout one = kLayouts[0];
  run_until(resumed(one, {save_to(root.path())}), 1, 5);  // 40 samples
  testing::internal::CaptureStderr();
  const auto run = run_until(resumed(one, {load_from(root.path()), save_to(again.path()),
                                           "training.global_batch_size=12"}),
                             1, 4);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(run->steps.size(), 1u);  // goes on after step 3: 36 samples
  EXPECT_EQ(run->steps.at(0).step, 4);
  EXPECT_EQ(run->steps.at(0).samples, 52);  // 40, and 12 of which 4 are read again
  EXPECT_THAT(said, HasSubstr("40 samples at a batch of 8; with the batch of 12 the run goes on "
                              "after step 3 (4 samples are trained on again)"));
}

TEST(Resume, WhatIsTheSameIsNotSaid) {
  const TempDir root, again;
  run_until(resumed(kLayouts[4], {save_to(root.path())}), 4, 2);
  testing::internal::CaptureStderr();
  run_until(resumed(kLayouts[7], {load_from(root.path()), save_to(again.path())}), 4, 3);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("resumed from"));
  EXPECT_THAT(said, testing::Not(HasSubstr("warning")));
}

TEST(Resume, SaveMaxCountsThoseBeforeItWhateverTheirPathLooksLike) {
  const TempDir root;
  const std::vector<std::string> saving = {save_to(root.path()), every(1), "checkpoint.save_max=2"};
  run_until(resumed(kLayouts[0], saving), 1, 2);
  const std::vector<std::string> slash = {load_from(root / iteration_name(2) / "")};
  run_until(resumed(kLayouts[0], saving + slash), 1, 3);
  EXPECT_EQ(list_iterations(root.path()), (std::vector<int64_t>{2, 3}));
}

TEST(Resume, OtherDataAndAnotherScheduleAreSaid) {
  const TempDir root, again;
  run_until(resumed(kLayouts[0], {save_to(root.path())}), 1, 2);
  testing::internal::CaptureStderr();
  run_until(
      resumed(kLayouts[0], {load_from(root.path()), save_to(again.path()), "training.steps=19",
                            "training.seed=7", "train_dataset.dataloader.config.seed=5",
                            "lr_scheduler.lr_end=0.0001", "optimizer.weight_decay=0.2",
                            "model.rope_theta=20000.0"}),
      1, 3);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("other data than it was trained on: seed 1234 -> 5"));
  EXPECT_THAT(said,
              HasSubstr("another schedule than before: lr_end 0.0 -> 1.0e-04, steps 20 -> 19\n"));
  EXPECT_THAT(said, HasSubstr("other random numbers than before: seed 42 -> 7\n"));
  EXPECT_THAT(said, HasSubstr("another model or optimizer than before: "
                              "rope_theta 10000.0 -> 20000.0, weight_decay 0.1 -> 0.2\n"));
}

TEST(Resume, WeightsOnlyStartAtStepZero) {
  const TempDir root;
  run_until(resumed(kLayouts[0], {save_to(root.path()), "checkpoint.no_save_optim=true"}), 1, 2);
  const Layout& layout = kLayouts[1];
  EXPECT_THROW(
      run_until(resumed(layout, {load_from(root.path()), save_to(root / "b")}), layout.ranks, 1),
      CheckpointError);
  const auto run =
      run_until(resumed(layout, {load_from(root.path()), save_to(root / "b"),
                                 "checkpoint.no_load_optim=true", "checkpoint.load_balanced=true"}),
                layout.ranks, 1);
  EXPECT_EQ(run->steps.at(0).step, 1);
  EXPECT_EQ(run->steps.at(0).samples, 8);
  const auto from_start = run_until(resumed(layout, {save_to(root / "c")}), layout.ranks, 1);
  EXPECT_NE(run->steps.at(0).loss, from_start->steps.at(0).loss);
}

// SGD without momentum: there is nothing that the checkpoint could have left out.
TEST(Resume, AnOptimizerThatKeepsNothingNeedsNoState) {
  const TempDir root;
  const std::string sgd = "llama_sgd64";
  const Layout& layout = kLayouts[1];
  const auto whole = run_until(resumed(layout, {save_to(root / "a")}, sgd), layout.ranks, 4);
  run_until(resumed(layout, {save_to(root / "b"), "checkpoint.no_save_optim=true"}, sgd),
            layout.ranks, 2);
  const auto rest = run_until(resumed(layout, {load_from(root / "b"), save_to(root / "b")}, sgd),
                              layout.ranks, 4);
  ASSERT_EQ(rest->steps.size(), 2U);
  expect_continues(*rest, *whole, 0);
  const auto with_momentum =
      resumed(layout, {load_from(root / "b"), save_to(root / "d"), "optimizer.momentum=0.9"}, sgd);
  EXPECT_THROW(run_until(with_momentum, layout.ranks, 4), CheckpointError);
}

TEST(Resume, TheModelSectionMayComeFromTheCheckpoint) {
  const TempDir root;
  run_until(resumed(kLayouts[0], {save_to(root.path())}), 1, 2);
  for (const fs::path& path : {root.path(), root / iteration_name(2)}) {
    const ConfigResult result =
        load_config_text("checkpoint: {load_path: '" + path.string() + "'}\n", "x.yaml", ".", {});
    ASSERT_TRUE(result.ok()) << format_issues(result.issues);
    EXPECT_EQ(result.config.model.model_type, "llama");
    EXPECT_EQ(result.config.model.hidden_size, 64);
    EXPECT_EQ(result.config.model.num_key_value_heads, 2);
  }
}

TEST(Resume, AModelOfAnotherShapeIsRefusedByName) {
  const TempDir root;
  run_until(resumed(kLayouts[0], {save_to(root.path())}), 1, 1);
  try {
    run_until(resumed(kLayouts[1], {load_from(root.path()), save_to(root / "b"),
                                    "model.intermediate_size=132", "model.num_hidden_layers=3"}),
              4, 2);
    ADD_FAILURE();
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr("not in the model (9): model.layers.3."));
    EXPECT_THAT(error.what(),
                HasSubstr("mlp.gate_proj.weight is [128, 64], the model has [132, 64]"));
  }
}

TEST(Resume, TheMetricsFileHoldsEveryStepOnce) {
  const TempDir root;
  const std::vector<std::string> both = {
      save_to(root / "saved"), "output_dir='" + (root / "out").string() + "'",
      "lr_scheduler.type=ConstantWarmUpLR", "checkpoint.save_interleaved_steps=2"};
  RunOptions options;
  options.thread_ranks = 2;
  const Layout layout{"", 2, {shard(2), local_batch(2)}};
  testing::internal::CaptureStdout();
  ASSERT_EQ(
      run_training(resumed(layout, both + std::vector<std::string>{"training.steps=5"}), options),
      0);
  // As if it had been killed in step 7: it resumes from 4 and does 5 again.
  fs::remove_all(root / "saved" / iteration_name(5));
  std::ofstream(root / "out" / "metrics.jsonl", std::ios::app) << "{\"step\": 6, \"sam";
  ASSERT_EQ(
      run_training(resumed(layout, both + std::vector<std::string>{"training.steps=6",
                                                                   load_from(root / "saved")}),
                   options),
      0);
  testing::internal::GetCapturedStdout();
  const auto lines = read_json_lines(root / "out" / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 6u);
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].at("step"), i + 1);
    EXPECT_EQ(lines[i].at("samples"), 8 * (i + 1));
  }
}

}  // namespace
}  // namespace tessera::test
