#include "tessera/config/load.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>

#include "tessera/config/families/alike.h"
#include "tessera/config/families/unbuilt.h"
#include "tessera/config/family.h"
#include "tessera/config/fields/field_text.h"
#include "tessera/config/hf_config.h"
#include "tessera/config/optimizer_kind.h"
#include "tessera/config/paths.h"
#include "tessera/config/resolve.h"
#include "tessera/config/static_graph/convert.h"
#include "tessera/config/yaml/disguised.h"
#include "tessera/config/yaml/eval_items.h"
#include "tessera/config/yaml/yaml_reader.h"

namespace tessera {
namespace {

constexpr size_t kLargestFile = 16
                                << 20;  // an endless one, such as /dev/zero, is not read to its end

class Loader {
 public:
  Loader(std::string directory, const FamilyTable& families, const OptimizerTable& optimizers,
         ConfigResult& result)
      : directory_(std::move(directory)),
        families_(families),
        optimizers_(optimizers),
        result_(result) {}

  void load(const Value& root) {
    keys_ = collect_keys(root, result_.issues);
    if (const std::string type = text_of("lr_scheduler.type"); !type.empty()) {
      set_lr_schedule_defaults(type, config().lr_scheduler);
    }
    for (const Given& key : keys_) {
      if (!is_model(key)) read(key, config());
    }
    resolve_paths();
    load_model();
    resolve(config(), optimizers_, [this](std::string_view path) { return given_.contains(path); });
  }

 private:
  Config& config() { return result_.config; }

  static bool is_model(const Given& key) { return key.field->path.starts_with("model."); }

  const Given* find(std::string_view path) const {
    const auto found =
        std::ranges::find(keys_, path, [](const Given& key) { return key.field->path; });
    return found == keys_.end() ? nullptr : &*found;
  }

  std::string text_of(std::string_view path) const {
    const Given* key = find(path);
    return key && key->value->kind == Value::Kind::kScalar && !key->value->is_null()
               ? key->value->text
               : "";
  }

  void read(const Given& key, Config& config) {
    read_key(key, config, result_.provenance, result_.issues);
    if (result_.provenance.contains(std::string(key.field->path))) given_.insert(key.field->path);
  }

  void report(const Given& at, std::string rule) {
    Issue issue;
    issue.source = at.value->source;
    issue.field = at.written;
    issue.value = display(*at.value);
    issue.rule = std::move(rule);
    result_.issues.push_back(std::move(issue));
  }

  void resolve_paths() {
    CheckpointConfig& checkpoint = config().checkpoint;
    checkpoint.load_path = resolve_path(directory_, checkpoint.load_path);
    checkpoint.base_load_path = resolve_path(directory_, checkpoint.base_load_path);
    checkpoint.save_path = resolve_path(directory_, checkpoint.save_path);
    DataloaderConfig& loader = config().train_dataset.dataloader;
    if (loader.data_dir) loader.data_dir = resolve_path(directory_, *loader.data_dir);
    if (loader.tokenizer) loader.tokenizer = resolve_path(directory_, *loader.tokenizer);
    for (DataHandler& handler : loader.handler) {
      const auto own = handler.args.find("tokenizer");
      if (own == handler.args.end()) continue;
      for (std::string& path : own->second) path = resolve_path(directory_, path);
    }
    if (loader.data_files) {
      for (std::string& file : *loader.data_files) {
        file =
            loader.data_dir ? resolve_path(*loader.data_dir, file) : resolve_path(directory_, file);
      }
    }
    DatasetConfig& data = loader.config;
    if (data.path_to_cache) data.path_to_cache = resolve_path(directory_, *data.path_to_cache);
    for (auto* list :
         {&data.data_path, &data.train_data_path, &data.valid_data_path, &data.test_data_path}) {
      if (!*list) continue;
      for (std::string& item : **list) {
        if (!parse_float(item) && !item.starts_with("s3://")) {
          item = resolve_prefix(directory_, item);
        }
      }
    }
  }

  // The config.json of what the run starts from; null when there is none. Whether the folder is
  // there, and what is in it, is told elsewhere (check_weights).
  std::unique_ptr<HfConfig> read_published(const std::string& type_of_file) {
    const CheckpointConfig& checkpoint = config().checkpoint;
    const bool has_base = !checkpoint.base_load_path.empty();
    const std::string& path = has_base ? checkpoint.base_load_path : checkpoint.load_path;
    if (path.empty()) return nullptr;
    if (is_hf_folder(path)) {
      return read_hf_config(path, families_, type_of_file, result_.issues);
    }
    std::string folder = checkpoint_with_config(path);
    std::error_code error;
    if (config().checkpoint.resume == "auto" && !std::filesystem::exists(path, error)) {
      folder = checkpoint_with_config(save_directory(config()));  // it is not read any more
    }
    if (folder.empty()) return nullptr;
    // Only fills in: whether the model is the checkpoint's is told when that is read.
    std::vector<Issue> ignored;
    auto hf = read_hf_config(folder, families_, type_of_file, ignored);
    if (has_errors(ignored)) hf.reset();
    from_checkpoint_ = true;
    return hf;
  }

  void load_model() {
    std::string type = type_of_file();
    const std::unique_ptr<HfConfig> hf = read_published(type);
    const bool any = std::ranges::any_of(keys_, is_model);
    if (!any && !hf) return;

    if (hf) type = agreed_type(type, *hf);
    const auto family = families_.find(type);
    LoraConfig lora = std::move(config().model.lora);
    config().model = family_defaults(family);
    config().model.lora = std::move(lora);
    if (hf && config().model.lora.is_given()) config().model.frozen_dtype = hf->dtype;
    if (hf && hf->model_type == type) take_hf(*hf);
    for (const Given& key : keys_) {
      if (is_model(key)) read(key, config());
    }
    ModelConfig& model = config().model;
    model.model_type = type;
    if (model.architectures.empty() && !type.empty()) {
      model.architectures = {family ? family->architecture : ""};
    }
    check_rope_names();
    if (family) fix_fields(*family);
  }

  // Keys in which a file may not differ from its family, but is only warned.
  void fix_fields(const Family& family) {
    for (const FixedField& fixed : family.fixed) {
      if (!fixed.only_warn || has_value(config(), fixed.path, fixed.text)) continue;
      set_field(config(), fixed.path, fixed.text);
      if (const Given* given = find(fixed.path)) {
        report(*given, "no effect: it is " + std::string(fixed.text) + " for " + family.model_type +
                           "; " + std::string(fixed.reason));
        result_.issues.back().severity = Severity::kWarning;
      }
    }
  }

  // The family as which a model is read.
  std::string family_name(const std::string& type) const {
    const AlikeModel* alike = families_.find(type) ? nullptr : find_alike_model(type);
    return alike ? std::string(alike->family) : type;
  }

  // From the YAML's two names, which must agree.
  std::string type_of_file() {
    const Given* type_key = find("model.model_type");
    const Given* class_key = find("model.architectures");
    std::string type = family_name(text_of("model.model_type"));
    std::string class_name;
    if (class_key) {
      const Value& value = *class_key->value;
      class_name = value.items.empty() ? text_of("model.architectures") : value.items[0].text;
    }
    const auto of_class = families_.find_architecture(class_name);
    const std::string from_class = of_class ? of_class->model_type : "";
    if (!class_name.empty() && from_class.empty()) {
      const UnbuiltFamily* unbuilt = find_unbuilt_family(class_name);
      const std::string why = unbuilt ? std::string(unbuilt->title) + " is not built; " : "";
      report(*class_key, why + "must be one of " + families_.architectures());
    } else if (!type.empty() && !from_class.empty() && from_class != type) {
      report(*type_key, "does not fit architectures = " + class_name);
    }
    return type.empty() ? from_class : type;
  }

  std::string agreed_type(const std::string& type, const HfConfig& hf) {
    if (type.empty() || type == hf.model_type) return hf.model_type;
    if (!from_checkpoint_ && !hf.model_type.empty() && families_.find(type)) {
      const Given* key = find("model.model_type");
      report(key ? *key : *find("model.architectures"),
             "does not fit model_type = " + hf.model_type + " of " + hf.document.source.file);
    }
    return type;
  }

  // Training may go without the layers that predict further tokens.
  bool leaves_out_prediction(const Field& field, const Config& from_yaml) {
    return field.path == "model.num_nextn_predict_layers" &&
           from_yaml.model.num_nextn_predict_layers == 0 &&
           config().model.num_nextn_predict_layers > 0;
  }

  // Takes the values of the config.json, and compares what the YAML gives too.
  void take_hf(const HfConfig& hf) {
    if (const auto& family = config().model.family) {
      for (const FieldText& field : family->hf_defaults) {
        set_field(config(), field.path, field.text);
      }
    }
    Config from_yaml;
    for (const Given& key : hf.keys) {
      const Field& field = *key.field;
      if (field.type->read(*key.value, field.address(config()))) {
        report(key, *field.type->check(*key.value));
        continue;
      }
      given_.insert(field.path);
      result_.provenance[std::string(field.path)] = key.value->source;
      const Given* ours = find(field.path);
      if (from_checkpoint_ || !ours || ours->value->is_null() ||
          field.path == "model.max_position_embeddings") {
        continue;
      }
      if (field.type->read(*ours->value, field.address(from_yaml))) continue;  // reported later
      if (leaves_out_prediction(field, from_yaml)) continue;
      if (!field.type->equal(field.address(config()), field.address(from_yaml))) {
        std::string where = key.value->source.file;
        if (key.value->source.line > 0) where += ":" + std::to_string(key.value->source.line);
        report(*ours,
               "must agree with " + key.written + " = " + display(*key.value) + " of " + where);
      }
    }
  }

  // position_embedding_type and rope_scaling speak of the same thing.
  void check_rope_names() {
    const Given* type = find("model.position_embedding_type");
    const Given* dict = find("model.rope_scaling.rope_type");
    if (type && dict && type->value->text == "yarn" && dict->value->text != "yarn") {
      report(*type, "does not fit " + dict->written + " = " + display(*dict->value));
    }
  }

  std::string directory_;
  const FamilyTable& families_;
  const OptimizerTable& optimizers_;
  bool from_checkpoint_ = false;
  ConfigResult& result_;
  std::vector<Given> keys_;
  std::set<std::string_view> given_;
};

// A set is read as if it were what is trained on; what is found in it bears its own name.
void load_eval_set(const EvalItem& set, const Value& root, const std::string& directory,
                   const FamilyTable& families, const OptimizerTable& optimizers,
                   ConfigResult& result) {
  constexpr std::string_view kTrain = "train_dataset.";
  Value own_root = root;
  std::erase_if(own_root.entries,
                [](const Value::Entry& entry) { return entry.key == "train_dataset"; });
  own_root.entries.push_back({"train_dataset", root.source, set.as_train_dataset});
  ConfigResult own;
  Loader(directory, families, optimizers, own).load(own_root);
  result.config.eval_dataset.push_back({set.name, own.config.train_dataset.dataloader});
  for (Issue& issue : own.issues) {
    if (!issue.field.starts_with(kTrain)) continue;
    issue.field = set.path + "." + issue.field.substr(kTrain.size());
    result.issues.push_back(std::move(issue));
  }
  for (const auto& [path, source] : own.provenance) {
    if (path.starts_with(kTrain)) {
      result.provenance[set.path + "." + path.substr(kTrain.size())] = source;
    }
  }
}

}  // namespace

ConfigResult load_config_text(const std::string& text, const std::string& name,
                              const std::string& directory,
                              const std::vector<std::string>& set_overrides,
                              const FamilyTable& families, const OptimizerTable& optimizers) {
  ConfigResult result;
  result.provenance[""] = {name, 0};
  Value root = parse_document(text, name, result.issues);
  const bool broken = has_errors(result.issues) && root.is_null();
  if (broken || (root.kind != Value::Kind::kMap && !root.is_null())) {
    collect_keys(root, result.issues);
    result.is_read = false;
    return result;
  }
  if (is_static_graph(root)) {
    Issue issue;
    issue.source = {name, 0};
    issue.rule = static_graph_rule(name);
    result.issues.push_back(std::move(issue));
    result.is_read = false;
    return result;
  }
  for (const std::string& assignment : set_overrides) {
    apply_override(root, assignment, result.issues);
  }
  const std::vector<EvalItem> sets = take_eval_items(root, result.issues);
  Loader(directory, families, optimizers, result).load(root);
  for (const EvalItem& set : sets) {
    load_eval_set(set, root, directory, families, optimizers, result);
  }
  constexpr size_t kMostHints = 20;  // each looks through the text
  for (Issue& issue : std::span(result.issues).first(std::min(result.issues.size(), kMostHints))) {
    const bool here = issue.source.file == name && issue.source.line > 0;
    if (here && issue.severity == Severity::kError &&
        issue.rule.find("; line ") == std::string::npos) {
      hint_at_disguised(issue, text);
    }
  }
  return result;
}

ConfigResult load_config(const std::string& path, const std::vector<std::string>& set_overrides,
                         const FamilyTable& families, const OptimizerTable& optimizers) {
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(path, error);
  errno = 0;
  std::ifstream file(path);
  const auto refuse = [&](const std::string& rule) {
    ConfigResult result;
    result.provenance[""] = {path, 0};
    result.is_read = false;
    Issue issue;
    issue.source = {path, 0};
    issue.rule = rule;
    result.issues.push_back(std::move(issue));
    return result;
  };
  if (!file || is_folder) {
    return refuse(std::string("cannot be read: ") + std::strerror(is_folder ? EISDIR : errno));
  }
  std::string text, block(64 << 10, '\0');
  while (text.size() < kLargestFile &&
         (file.read(block.data(), std::ssize(block)) || file.gcount() > 0)) {
    text.append(block, 0, static_cast<size_t>(file.gcount()));
  }
  if (text.size() >= kLargestFile) return refuse("is larger than a configuration is (16 MiB)");
  const std::string directory = std::filesystem::path(path).parent_path().string();
  return load_config_text(text, path, directory.empty() ? "." : directory, set_overrides, families,
                          optimizers);
}

}  // namespace tessera
