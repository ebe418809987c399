#include "tessera/config/writer.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/config/expand_path.h"
#include "tessera/config/family.h"
#include "tessera/config/fields/field.h"
#include "tessera/config/fields/key_groups.h"
#include "tessera/config/fields/lr_schedule_keys.h"
#include "tessera/config/load.h"
#include "tessera/config/optimizer_kind.h"

namespace tessera {
namespace {

// Keys that mean nothing in this run; written only where they differ from their default, so that
// reading the text again neither loses them nor names them all.
bool is_idle(const Config& config, const Field& field) {
  const std::string_view path = field.path;
  if (field.effect != Effect::kHonoured) return true;
  const OptimizerKind* optimizer = config.optimizer.kind.get();
  if (optimizer && builtin_optimizers().is_key_of_others(path, *optimizer)) return true;
  const bool of_adapters = path.starts_with("lora_config.") || holds(kAdapterKeys, path);
  if (!config.model.lora.is_given() && of_adapters) return true;
  if (config.train_dataset.dataloader.type != "HFDataLoader" && holds(kRecordKeys, path))
    return true;
  return (!config.model.has_latent_attention() &&
          (holds(kLatentKeys, path) || holds(kRotaryKeys, path))) ||
         (!config.model.is_moe() && holds(kExpertKeys, path));
}

// Sections that the file did not have, and keys that the schedule's type would refuse.
bool is_left_out(const Config& config, const Config& defaults, const Field& field) {
  const std::string_view path = field.path;
  if (!field.address) return true;
  if (is_idle(config, field) &&
      field.type->equal(field.address_in(config), field.address_in(defaults))) {
    return true;
  }
  if (path.starts_with("model.")) return config.model.model_type.empty();
  if (path.starts_with("train_dataset.")) return config.train_dataset.dataloader.type.empty();
  if (path.starts_with("lr_scheduler.")) {
    return config.lr_scheduler.type.empty() ||
           !is_lr_schedule_key(config.lr_scheduler.type, path.substr(path.find('.') + 1));
  }
  return false;
}

std::vector<std::string_view> sections_of(std::string_view path) {
  std::vector<std::string_view> parts;
  for (size_t dot; (dot = path.find('.')) != std::string_view::npos; path.remove_prefix(dot + 1)) {
    parts.push_back(path.substr(0, dot));
  }
  return parts;
}

std::vector<const Field*> fields_to_write(const Config& config) {
  Config defaults;
  defaults.model = family_defaults(config.model.family);
  std::vector<const Field*> fields;
  for (const Field& field : all_fields()) {
    if (!is_left_out(config, defaults, field)) fields.push_back(&field);
  }
  return fields;
}

// Paths with what reading would expand written so that it is read as it is.
void keep_paths(std::string& path) { path = unexpanded(path); }
void keep_paths(std::optional<std::string>& path) {
  if (path) keep_paths(*path);
}
void keep_paths(std::optional<std::vector<std::string>>& paths) {
  if (!paths) return;
  for (std::string& path : *paths) keep_paths(path);
}

Config with_kept_paths(Config config) {
  for (const Field& field : all_fields()) {
    if (!field.is_path || !field.address) continue;
    void* value = field.address(config);
    if (field.type == &field_type<std::string>()) {
      keep_paths(*static_cast<std::string*>(value));
    } else if (field.type == &field_type<std::optional<std::string>>() ||
               field.type == &field_type<TextOrAny>()) {
      keep_paths(*static_cast<std::optional<std::string>*>(value));
    } else if (field.type == &field_type<std::optional<LooseString>>() ||
               field.type == &field_type<std::optional<StringOrList>>()) {
      keep_paths(*static_cast<std::optional<std::vector<std::string>>*>(value));
    } else {
      TESSERA_CHECK(false, field.path, ": a path of a type that is not known here");
    }
  }
  return config;
}

}  // namespace

std::map<std::string, std::string> written_fields(const Config& config) {
  std::map<std::string, std::string> texts;
  for (const Field* field : fields_to_write(config)) {
    texts[std::string(field->path)] = field->type->write(field->address_in(config));
  }
  return texts;
}

namespace {

std::string sections_of_yaml(const Config& given) {
  const Config config = with_kept_paths(given);
  std::vector<const Field*> fields = fields_to_write(config);
  // One block a section: keys of the top first, then sections in the order of the table.
  const auto top = [](const Field* field) {
    return field->path.find('.') == std::string_view::npos;
  };
  std::ranges::stable_partition(fields, top);

  std::string out;
  std::vector<std::string_view> open;
  for (const Field* field : fields) {
    const std::vector<std::string_view> sections = sections_of(field->path);
    size_t common = 0;
    while (common < open.size() && common < sections.size() && open[common] == sections[common]) {
      ++common;
    }
    for (size_t depth = common; depth < sections.size(); ++depth) {
      out.append(2 * depth, ' ').append(sections[depth]).append(":\n");
    }
    open = sections;
    out.append(2 * sections.size(), ' ')
        .append(field->path.substr(field->path.rfind('.') + 1))
        .append(": ")
        .append(field->type->write(field->address_in(config)))
        .append("\n");
  }
  return out;
}

// A set as the reader takes it: the dataloader of train_dataset, one level deeper.
std::string eval_set_yaml(const Config& config, const EvalDatasetConfig& set) {
  Config only;
  only.model = config.model;
  only.train_dataset.dataloader = set.dataloader;
  std::string out = "  - name: " + set.name + "\n";
  std::istringstream lines(sections_of_yaml(only));
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(' ')) inside = line == "train_dataset:";
    if (inside && line.starts_with("  ") && !line.starts_with("  drop_remainder") &&
        !line.starts_with("  balance_enabled")) {
      out += "  " + line + "\n";
    }
  }
  return out;
}

}  // namespace

std::string to_yaml(const Config& config) {
  std::string out = sections_of_yaml(config);
  if (config.eval_dataset.empty()) return out;
  out += "eval_dataset:\n";
  for (const EvalDatasetConfig& set : config.eval_dataset) out += eval_set_yaml(config, set);
  return out;
}

}  // namespace tessera
