// Random damage to good files: an answer every time, never a crash or a foreign exception.

#include "tessera/base/error.h"
#include "tessera/layout/layer_ranges.h"
#include "tessera/layout/model_spec.h"
#include "tessera/rules/derive.h"
#include "tests/config/config_testing.h"
#include "tests/support/mutate_yaml.h"

namespace tessera {
namespace {

using namespace testing_config;
using test::join_lines;
using test::split_lines;
using test::YamlMutator;

std::vector<std::string> good_files() {
  std::vector<std::string> files = {kBase};
  const auto add = [&](const std::vector<std::string>& sets) {
    files.push_back(to_yaml(load_config_text(kBase, "x", "/nonexistent", sets).config));
  };
  add(moe({"parallelism.expert_parallel=4", "model.moe_aux_loss_coeff=0.01",
           "parallelism.moe_token_dispatcher_type=alltoall_deredundancy",
           "parallelism.npu_nums_per_device=4"}));
  add(deepseek({"parallelism.tensor_parallel=2", "model.num_nextn_predict_layers=1",
                "model.mtp_loss_factor=0.1",
                "recompute={mode: full, full_recompute_layer: ['0-2']}"}));
  add({"parallelism.pipeline_parallel=2", "parallelism.pipeline_parallel_interleave_num=2",
       "parallelism.pipeline_parallel_layers_per_stage=['0, 2', '1, 3']",
       "lr_scheduler={type: CosineWithWarmUpLR, warmup_ratio: 0.2}",
       "optimizer={type: AdamW, weight_decay_exclude: [norm]}"});
  add({"parallelism.context_parallel=4", "parallelism.context_parallel_method=hybrid",
       "parallelism.ulysses_degree_in_cp=2", "model.model_type=qwen3",
       "model.rope_scaling={rope_type: yarn, factor: 2.0}",
       "train_dataset.dataloader.config.create_compressed_eod_mask=true"});
  return files;
}

// Everything that is done with a file before ranks start.
void answer(const std::string& text, int64_t world, int& accepted) {
  const Checked checked = check_text(text, world);
  EXPECT_FALSE(format_issues(checked.issues).empty() && has_errors(checked.issues));
  if (has_errors(checked.issues)) return;
  ++accepted;
  const Config& config = checked.result.config;
  const ParallelDims dims = derive_dims(config, world);
  EXPECT_EQ(dims.dp_replicate * dims.dp_shard * dims.cp * dims.tp * dims.pp, world);
  EXPECT_FALSE(place_layers(config).empty());
  EXPECT_TRUE(load_config_text(to_yaml(config), "again", "/nonexistent", {}).config == config)
      << text;
  if (config.model.num_hidden_layers * std::max<int64_t>(1, config.model.n_routed_experts) < 1000) {
    EXPECT_FALSE(model_spec(config.model).empty());
  }
}

TEST(Mutations, RandomDamageIsAnswered) {
  const std::vector<std::string> files = good_files();
  YamlMutator mutator(20260601);
  const int64_t worlds[] = {1, 4, 8, 8, 8, 6, 16};
  int accepted = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::string text = mutator.mutate(split_lines(files[i % files.size()]));
    const int64_t world = worlds[mutator.pick(std::size(worlds))];
    ASSERT_NO_THROW(answer(text, world, accepted)) << text;
  }
  EXPECT_GT(accepted, 100);   // some damage is harmless
  EXPECT_LT(accepted, 4000);  // most is not
}

TEST(Mutations, EveryLineMissingDoubledOrWrong) {
  for (const std::string& file : good_files()) {
    const std::vector<std::string> lines = split_lines(file);
    int accepted = 0;
    for (size_t at = 0; at < lines.size(); ++at) {
      std::vector<std::string> missing = lines, doubled = lines;
      missing.erase(missing.begin() + static_cast<long>(at));
      doubled.insert(doubled.begin() + static_cast<long>(at), lines[at]);
      ASSERT_NO_THROW(answer(join_lines(missing), 8, accepted));
      ASSERT_NO_THROW(answer(join_lines(doubled), 8, accepted));
      const size_t colon = lines[at].find(": ");
      if (colon == std::string::npos) continue;
      EXPECT_TRUE(has_errors(check_text(join_lines(doubled), 8).issues)) << lines[at];
      for (const char* wrong :
           {"-7", "0", "123456789012345", "[x, y]", "{q: 1}", "certainly not"}) {
        std::vector<std::string> changed = lines;
        changed[at] = lines[at].substr(0, colon + 2) + wrong;
        ASSERT_NO_THROW(answer(join_lines(changed), 8, accepted));
      }
      std::vector<std::string> misspelt = lines;
      misspelt[at].insert(colon, "x");
      EXPECT_TRUE(has_errors(check_text(join_lines(misspelt), 8).issues)) << misspelt[at];
    }
  }
}

}  // namespace
}  // namespace tessera
