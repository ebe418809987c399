// Rules of lora_config: low-rank adapters, and what goes with them.

#include <array>

#include "tessera/base/error.h"
#include "tessera/config/suggest.h"
#include "tessera/layout/adapters.h"
#include "tessera/rules/checker.h"

namespace tessera {

namespace {

constexpr const char* kTarget = "lora_config.target_modules";
constexpr const char* kExclude = "lora_config.exclude_layers";
constexpr const char* kDropout = "lora_config.lora_dropout";
constexpr const char* kBase = "checkpoint.base_load_path";
constexpr const char* kTrainableOnly = "checkpoint.save_trainable_only";

void check_without(Checker& check) {
  if (check.given(kTarget)) return check.error(kTarget, "must not be empty");
  constexpr std::array<const char*, 6> kOthers = {
      kExclude, "lora_config.lora_rank",  "lora_config.lora_alpha",
      kDropout, "lora_config.lora_a_std", "lora_config.lora_b_std"};
  for (const char* path : kOthers) {
    if (!check.given(path)) continue;
    check.error(kTarget, "is needed with lora_config: which matrices have adapters");
    return;
  }
  for (const char* path : {kBase, kTrainableOnly}) {
    if (check.given(path)) check.no_effect(path);
  }
}

std::string listed(const std::vector<std::string>& names, size_t most) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) text += (i == 0 ? "" : ", ") + names[i];
  return names.size() > most ? text + ", …" : text;
}

void check_matches(Checker& check, const AdapterMatches& matches) {
  if (!matches.some_experts.empty()) {
    check.error(kTarget, "the experts of a layer have adapters all or none; it leaves out " +
                             listed(matches.some_experts, 3));
  } else if (matches.matrices == 0) {
    const std::string nearest =
        nearest_word(check.config.model.lora.target_modules, matches.candidates);
    check.error(kTarget,
                "is found in no path of a matrix; those of the first layers are " +
                    listed(matches.candidates, 40),
                nearest);
  }
  if (matches.of_experts && check.config.model.lora.lora_dropout > 0) {
    check.error(kDropout, "is not built for the adapters of routed experts (nor in PEFT)", "0");
  }
  if (matches.names_embedding) {
    check.error(kTarget, "names the embedding, whose adapter is not built");
  }
}

}  // namespace

void check_adapters(Checker& check) {
  const LoraConfig& lora = check.config.model.lora;
  if (!lora.is_given()) return check_without(check);
  if (lora.lora_dropout >= 1.0) check.error(kDropout, "must be below 1");
  if (check.config.checkpoint.save_trainable_only &&
      check.config.checkpoint.base_load_path.empty()) {
    check.error(kTrainableOnly,
                "needs checkpoint.base_load_path: without its base such a checkpoint "
                "cannot go on");
  }
  for (const auto& [path, pattern] : {std::pair{kTarget, lora.target_modules},
                                      std::pair{kExclude, lora.exclude_layers.value_or("")}}) {
    const std::string problem = pattern.empty() ? "" : pattern_problem(pattern);
    if (!problem.empty()) check.error(path, problem);
  }
  if (check.model_ok && check.good({kTarget, kExclude})) {
    check_matches(check, adapter_matches(check.config.model));
  }
}

}  // namespace tessera
