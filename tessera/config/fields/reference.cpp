#include "tessera/config/fields/reference.h"

#include <algorithm>
#include <cmath>

#include "tessera/config/family.h"
#include "tessera/config/fields/field.h"
#include "tessera/config/fields/field_rules.h"
#include "tessera/config/fields/lr_schedule_keys.h"
#include "tessera/config/optimizer_kind.h"

namespace tessera {
namespace {

constexpr std::string_view kIntroduction = R"(# Configuration reference

Generated from the table of fields in `tessera/config`; `tests/config/reference_test.cpp` holds them
together.

A run is one YAML file. `--set section.field=value` replaces a value; it is parsed as YAML and reported
like a line of the file. Unknown keys are refused in every section. Types are checked: a bool is no int,
an int is a float, `1e-8` is a float with or without a dot. A relative path means what exists beside the
file, else below the working directory. In every key marked "A path", and in flags that name a file or a folder,
`~/` is the home folder, `$NAME` and `${NAME}` are variables of the environment and `$$` is a dollar sign;
`~user` and variables that are not set are refused. In `model`, `lr_scheduler` and
`train_dataset.dataloader` a null means that the key is left out. A section at the top whose name begins
with `_`, `.` or `x-` is there for its anchors and is not read itself.

| effect | meaning |
|---|---|
| yes | honoured |
| none | accepted, and named in one line at the start when given |
| fixed | accepted, and named in that line when it asks for something else than what happens |
| reserved | accepted; the value is derived, and a warning says so when another one is asked for |
| refused | only the default is accepted: what it asks for is not built |

Keys of `model` that are left out come from the `config.json` at `checkpoint.load_path` when that is a
Hugging Face folder; what both give must agree. Otherwise the defaults below hold; where families differ
from the first one, they are named.
)";

std::string_view effect_name(Effect effect) {
  switch (effect) {
    case Effect::kHonoured: return "yes";
    case Effect::kNoEffect: return "none";
    case Effect::kReserved: return "reserved";
    case Effect::kFixed: return "fixed";
    case Effect::kRefused: return "refused";
  }
  return "";
}

std::string default_of(const Field& field) {
  if (!field.address) return "";
  Config config;
  const auto text = [&] { return field.type->write(field.address_in(config)); };
  if (!field.path.starts_with("model.") || field.path == "model.model_type" ||
      field.path == "model.architectures") {
    return "`" + text() + "`";
  }
  std::vector<std::pair<std::string, std::string>> defaults;  // {value, families}
  for (const auto& family : builtin_families().rows()) {
    config.model = family_defaults(family);
    const std::string value = text();
    const auto found = std::ranges::find(defaults, value, [](const auto& d) { return d.first; });
    if (found == defaults.end()) {
      defaults.emplace_back(value, family->model_type);
    } else {
      found->second += " " + family->model_type;
    }
  }
  std::string out = "`" + defaults.front().first + "`";
  for (size_t i = 1; i < defaults.size(); ++i) {
    out += ", " + defaults[i].second + " `" + defaults[i].first + "`";
  }
  return out;
}

std::string meaning_of(const Field& field) {
  std::string out(field.doc);
  if (!field.part_of.empty()) out += " Part of " + std::string(field.part_of) + ".";
  const bool bounded = !std::isinf(field.minimum) || !std::isinf(field.maximum);
  if (field.path == "model.model_type") {
    out += " Value must be one of " + builtin_families().names() + ".";
  }
  if (!field.choices.empty()) out += " Value " + choice_rule(field) + ".";
  if (field.path == "optimizer.type") {
    out += " Value must be one of " + builtin_optimizers().names() + ".";
  }
  if (bounded) out += " Value " + bounds_rule(field) + ".";
  if (field.is_path) out += " A path.";
  std::string names;
  const size_t dot = field.path.rfind('.');
  for (const Alias& alias : all_aliases()) {
    if (dot != std::string_view::npos && alias.section == field.path.substr(0, dot) &&
        alias.first == field.path.substr(dot + 1)) {
      names += (names.empty() ? "`" : ", `") + std::string(alias.name) + "`";
    }
  }
  if (!names.empty()) out += " Also " + names + ".";
  return out;
}

// The section that a table is made for: nested ones are spelt in the key.
std::string_view table_of(const Field& field) {
  const size_t dot = field.path.find('.');
  return dot == std::string_view::npos ? "" : field.path.substr(0, dot);
}

std::string schedules() {
  std::string out =
      "\n## Keys of each schedule\n\n`learning_rate` (peak), and:\n\n| type | keys |\n|---|---|\n";
  for (const std::string_view type :
       {"ConstantWarmUpLR", "LinearWithWarmUpLR", "CosineWithWarmUpLR",
        "CosineWithRestartsAndWarmUpLR", "PolynomialWithWarmUpLR", "WarmUpStableDecayLR",
        "ConstantWithCoolDownLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts"}) {
    std::string keys;
    for (const std::string_view key : lr_schedule_keys(type)) {
      keys += (keys.empty() ? "`" : ", `") + std::string(key) + "`";
    }
    out += "| `" + std::string(type) + "` | " + keys + " |\n";
  }
  return out;
}

}  // namespace

std::string config_reference() {
  std::vector<std::string_view> tables;
  for (const Field& field : all_fields()) {
    if (std::ranges::find(tables, table_of(field)) == tables.end()) {
      tables.push_back(table_of(field));
    }
  }
  std::string out(kIntroduction);
  for (const std::string_view table : tables) {
    out += table.empty() ? "\n## Top level\n" : "\n## `" + std::string(table) + "`\n";
    out += "\n| key | type | default | effect | meaning |\n|---|---|---|---|---|\n";
    for (const Field& field : all_fields()) {
      if (table_of(field) != table) continue;
      const std::string_view key = table.empty() ? field.path : field.path.substr(table.size() + 1);
      out += "| `" + std::string(key) + "` | " + std::string(field.type->name) + " | " +
             default_of(field) + " | " + std::string(effect_name(field.effect)) + " | " +
             meaning_of(field) + " |\n";
    }
  }
  return out + schedules();
}

}  // namespace tessera
