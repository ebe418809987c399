// Targets of what shapes a run: the file, its overrides, a model's config.json.

#include <algorithm>
#include <cstdlib>

#include "tessera/base/error.h"
#include "tessera/config/load.h"
#include "tessera/planner/plan.h"
#include "tessera/rules/derive.h"
#include "tessera/rules/validate.h"
#include "tests/config/config_testing.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/targets.h"

namespace tessera::fuzz {
namespace {

// A plan takes time with the sizes of the model and the world: beyond these the fuzzer would
// measure that.
bool is_small(const Config& config, const ParallelDims& dims) {
  const ModelConfig& m = config.model;
  const auto at_most = [](int64_t value, int64_t bound) { return value <= bound; };
  return at_most(m.num_hidden_layers, 64) && at_most(m.n_routed_experts, 64) &&
         at_most(m.num_hidden_layers * std::max<int64_t>(1, m.n_routed_experts), 256) &&
         at_most(dims.world, 16) && at_most(config.training.global_batch_size, 1024) &&
         at_most(config.train_dataset.dataloader.config.seq_length, 1 << 16);
}

// All that the programs do with a file before ranks start.
void answer(const ConfigResult& loaded, int64_t world) {
  const std::vector<Issue> issues = validate(loaded, world);
  if (has_errors(issues)) {
    if (format_issues(issues).empty()) abort();  // a refusal without a word
    return;
  }
  const Config& config = loaded.config;
  const ParallelDims dims = derive_dims(config, world);
  if (!(load_config_text(to_yaml(config), "again", "/nonexistent", {}).config == config)) abort();
  if (!is_small(config, dims)) return;
  const Plan plan = make_plan(config, world);
  if (to_text(plan).empty() || to_json(plan).empty()) abort();
}

}  // namespace

void read_yaml(std::string_view input) {
  if (input.empty()) return;
  constexpr int64_t kWorlds[] = {1, 2, 3, 4, 6, 8, 12, 16};
  const int64_t world = kWorlds[static_cast<unsigned char>(input[0]) % std::size(kWorlds)];
  input.remove_prefix(1);
  answer(load_config_text(std::string(input), "x.yaml", "/nonexistent", {}), world);
}

void read_overrides(std::string_view input) {
  answer(load_config_text(testing_config::kBase, "x.yaml", "/nonexistent", lines_of(input)), 8);
}

void read_config_json(std::string_view input) {
  scratch_file("config.json", input);
  answer(load_config_text(testing_config::kBase, "x.yaml", "/nonexistent",
                          {"checkpoint.load_path=" + scratch_folder().string()}),
         4);
  // Without a model of its own the file takes all from the folder.
  answer(load_config_text("training: {steps: 1}\n", "x.yaml", "/nonexistent",
                          {"checkpoint.load_path=" + scratch_folder().string()}),
         1);
}

}  // namespace tessera::fuzz
