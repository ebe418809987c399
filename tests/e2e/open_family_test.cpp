// A family that the program does not know: added here by a longer table, without another line of
// the program. It is planned, trained in every kind of layout, saved, resumed and exported.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tessera/checkpoint/hf_export.h"
#include "tessera/config/load.h"
#include "tessera/layout/layer_modules.h"
#include "tessera/layout/model_spec.h"
#include "tessera/planner/plan.h"
#include "tessera/train/parity/parity.h"
#include "tests/e2e/layout.h"
#include "tests/e2e/run_trainer.h"
#include "tests/support/json_files.h"
#include "tests/support/temp_dir.h"

namespace tessera::test {
namespace {

// Llama with a norm after each branch, beside those before or in their place.
Family with_norms_after(const std::string& name, bool norms_before) {
  Family f = *builtin_families().find("llama");
  f.model_type = name;
  f.architecture = name + "ForCausalLM";
  if (!norms_before) f.design.norms.clear();
  f.design.norms.push_back({NormPlace::kAfterAttention, "post_attention_branch_layernorm"});
  f.design.norms.push_back({NormPlace::kAfterMlp, "post_feedforward_layernorm"});
  f.hf_implied = {{"model.qk_layernorm", "false"}};
  return f;
}

FamilyTable longer_table() {
  return builtin_families()
      .with(with_norms_after("four_norms", true))
      .with(with_norms_after("two_norms_after", false));
}

TrainerOptions with_longer_table() {
  TrainerOptions options;
  options.families = longer_table();
  return options;
}

// From the generator: there are no published weights.
std::vector<std::string> of_family(const std::string& family) {
  return {"checkpoint.load_path=''", "model.model_type=" + family,
          "model.architectures=" + family + "ForCausalLM", "training.steps=4"};
}

Config load(const std::string& family, const Layout& layout) {
  return load_case("llama_sgd64", of_family(family) + layout.set, layout.ranks, longer_table());
}

const Layout kOneRank = {"one_rank", 1, {}};
const std::vector<Layout> kLayouts = {
    {"fsdp", 4, {shard(4), local_batch(2)}},
    {"tp", 4, {shard(2), tp(2), local_batch(4)}},
    {"pp",
     4,
     {shard(2), "parallelism.pipeline_parallel=2",
      "parallelism.pipeline_parallel_layers_per_stage=auto", local_batch(2)}},
    {"recompute",
     4,
     {shard(2), tp(2), local_batch(4), "recompute.mode=select",
      "recompute.select_module={post_feedforward_layernorm: ['0-3'], self_attn: ['1']}"}}};

class OpenFamily : public testing::TestWithParam<std::string> {};

TEST_P(OpenFamily, IsUnknownWithoutItsRow) {
  const auto load = [&] { return load_case("llama_sgd64", of_family(GetParam()), 1); };
  EXPECT_ANY_THROW(load());
  EXPECT_EQ(builtin_families().find(GetParam()), nullptr);
}

TEST_P(OpenFamily, HasItsNormsAndNoOthers) {
  const Config config = load(GetParam(), kOneRank);
  std::vector<std::string> names;
  for (const ParamSpec& spec : model_spec(config.model)) {
    if (spec.layer == 2 && is_norm(spec.role)) names.push_back(spec.name);
  }
  std::vector<std::string> expected{"model.layers.2.input_layernorm.weight",
                                    "model.layers.2.post_attention_branch_layernorm.weight",
                                    "model.layers.2.post_attention_layernorm.weight",
                                    "model.layers.2.post_feedforward_layernorm.weight"};
  if (GetParam() != "four_norms") expected = {expected[1], expected[3]};
  EXPECT_EQ(names, expected);
}

// The arithmetic, written out with the layer's own parts.
TEST_P(OpenFamily, LayerIsItsFormula) {
  const Config config = load(GetParam(), kOneRank);
  const auto decoder = build_decoder(config.model, {0}, false, false);
  DecoderLayer& layer = *decoder->layers[0];
  int64_t seed = 1;
  for (Weight* weight : layer.weights()) {
    std::vector<int64_t> shape = weight->parts[0].shape;
    shape[0] = 0;
    for (const ParameterPart& part : weight->parts) shape[0] += part.shape[0];
    const at::Tensor line = at::arange(c10::multiply_integers(shape), at::kDouble);
    weight->value = at::sin(line * 0.7 + static_cast<double>(seed++)).reshape(shape);
  }
  LayerContext context;
  context.rows = 2;
  context.seq_length = 5;
  context.positions = at::arange(5, at::kLong).repeat({2});
  decoder->prepare(context);
  const int64_t hidden = config.model.hidden_size;
  const at::Tensor x = at::cos(at::arange(10 * hidden, at::kDouble)).reshape({10, hidden});
  const auto norm = [](const NormSeam& seam, const at::Tensor& in) {
    if (!seam.norm) return in;
    return in / (in.square().mean(-1, true) + seam.norm->eps).sqrt() * seam.norm->weight.value;
  };
  const at::Tensor middle =
      x + norm(layer.after_attention,
               layer.attention->forward(norm(layer.before_attention, x), context));
  const at::Tensor expected =
      middle +
      norm(layer.after_mlp, layer.mlp->forward(norm(layer.before_mlp, middle), context).y_TH);
  EXPECT_LT((layer.run(x, context)[0] - expected).abs().max().item<double>(), 1e-12);
}

TEST_P(OpenFamily, IsPlannedToTheByte) {
  for (const Layout& layout : kLayouts) {
    const Config config = load(
        GetParam(),
        {layout.name, layout.ranks, layout.set + std::vector<std::string>{"optimizer.type=AdamW"}});
    const Plan plan = make_plan(config, layout.ranks);
    EXPECT_EQ(plan.parameters, count_parameters(model_spec(config.model)));
    const std::vector<int64_t> held =
        measure_memory(config, layout.ranks, with_longer_table()).persistent;
    for (size_t rank = 0; rank < held.size(); ++rank) {
      EXPECT_EQ(held[rank], plan.memory[rank].weights + plan.memory[rank].moments)
          << layout.name << " rank " << rank;
    }
  }
}

TEST_P(OpenFamily, TrainsAlikeInEveryLayout) {
  const auto one = train(load(GetParam(), kOneRank), 1, 4);
  EXPECT_LT(one->steps.back().loss, one->steps.front().loss);
  for (const Layout& layout : kLayouts) {
    SCOPED_TRACE(layout.name);
    expect_same_training(*train(load(GetParam(), layout), layout.ranks, 4), *one, 1e-10);
  }
}

TEST_P(OpenFamily, ParityHolds) {
  for (const Layout& layout : kLayouts) {
    ParityOptions options;
    options.ranks = layout.ranks;
    options.steps = 2;
    const ParityReport report = run_parity(load(GetParam(), layout), options);
    EXPECT_TRUE(report.passed()) << layout.name << "\n" << parity_text(report);
  }
}

// Saved in one layout, resumed in another, and exported.
TEST_P(OpenFamily, IsSavedResumedAndExported) {
  const TempDir folder;
  const std::string path = folder.path().string();
  const std::vector<std::string> saving = {"checkpoint.enable_save=true",
                                           "checkpoint.save_path='" + path + "'",
                                           "checkpoint.save_interleaved_steps=2"};
  const auto run = [&](const Config& config, int64_t ranks, int64_t last) {
    std::vector<double> losses;
    const auto record = run_until(config, ranks, last, with_longer_table());
    for (const StepMetrics& step : record->steps) losses.push_back(step.loss);
    return losses;
  };
  const auto with = [&](const Layout& layout, const std::vector<std::string>& more) {
    return load(GetParam(), {layout.name, layout.ranks, layout.set + more});
  };
  const std::vector<double> whole = run(load(GetParam(), kLayouts[0]), 4, 4);
  run(with(kLayouts[0], saving), 4, 2);
  const std::vector<double> rest = run(
      with(kLayouts[1], {"checkpoint.load_path='" + path + "'", "checkpoint.no_load_optim=false"}),
      4, 4);
  ASSERT_EQ(rest.size(), 2U);
  EXPECT_NEAR(rest[0], whole[2], 1e-10);
  EXPECT_NEAR(rest[1], whole[3], 1e-10);

  HfExportOptions options;
  options.checkpoint = folder.path();
  options.output = folder.path() / "exported";
  EXPECT_ANY_THROW(export_to_hf(options));  // of a family that is not in the table
  options.families = longer_table();
  export_to_hf(options);
  EXPECT_EQ(read_json(options.output / "config.json").at("model_type"), GetParam());
  const ConfigResult read =
      load_config_text("checkpoint: {load_path: '" + options.output.string() + "'}\n", "x.yaml",
                       ".", {}, longer_table());
  EXPECT_TRUE(read.ok()) << format_issues(read.issues);
  EXPECT_EQ(read.config.model.model_type, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Families, OpenFamily, testing::Values("four_norms", "two_norms_after"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tessera::test
