// Random damage to good files: an answer every time, never a crash or a foreign exception.

#include <random>

#include "tessera/base/error.h"
#include "tessera/layout/layer_ranges.h"
#include "tessera/layout/model_spec.h"
#include "tessera/rules/derive.h"
#include "tests/config/config_testing.h"

namespace tessera {
namespace {

using namespace testing_config;

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string join_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

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

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::string mutate(std::vector<std::string> lines) {
    const int times = 1 + pick(3);
    for (int i = 0; i < times && !lines.empty(); ++i) mutate_line(lines);
    return join_lines(lines);
  }

  int pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }

 private:
  void mutate_line(std::vector<std::string>& lines) {
    const size_t at = static_cast<size_t>(pick(static_cast<int>(lines.size())));
    std::string& line = lines[at];
    switch (pick(9)) {
      case 0:  // missing
        lines.erase(lines.begin() + static_cast<long>(at));
        return;
      case 1: {  // doubled
        const std::string copy = line;
        lines.insert(lines.begin() + static_cast<long>(at), copy);
        return;
      }
      case 2:  // misspelt
        if (!line.empty()) line.erase(static_cast<size_t>(pick(static_cast<int>(line.size()))), 1);
        return;
      case 3:  // moved in or out
        line = pick(2) ? "  " + line : line.substr(std::min<size_t>(2, line.size()));
        return;
      case 4:  // a random byte
        if (!line.empty()) {
          line[static_cast<size_t>(pick(static_cast<int>(line.size())))] =
              static_cast<char>(pick(256));
        }
        return;
      default: {  // another value
        static const char* kValues[] = {"-1",
                                        "0",
                                        "1",
                                        "2",
                                        "3",
                                        "7",
                                        "1000000000",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "99999999999999999999",
                                        "1e308",
                                        "1e-320",
                                        "-0.5",
                                        "0.5",
                                        ".nan",
                                        ".inf",
                                        "true",
                                        "null",
                                        "''",
                                        "abc",
                                        "[]",
                                        "[1, 2]",
                                        "['0-1', '2-3']",
                                        "{}",
                                        "{a: 1}",
                                        "auto",
                                        "[[]]",
                                        "\"\\x00\"",
                                        "*a",
                                        "&a b",
                                        "0x7f",
                                        "4",
                                        "8",
                                        "64",
                                        "ulysses",
                                        "hybrid",
                                        "[-1, -1, -1]",
                                        "['3-1']",
                                        "bfloat16",
                                        "float16",
                                        "llama",
                                        "deepseek_v3",
                                        "!!int x"};
        const size_t colon = line.find(':');
        if (colon == std::string::npos) return;
        line = line.substr(0, colon + 1) + " " + kValues[pick(std::size(kValues))];
        return;
      }
    }
  }

  std::mt19937_64 random_;
};

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
  Mutator mutator(20260601);
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
