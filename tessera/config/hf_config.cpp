#include "tessera/config/hf_config.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tessera/base/lfs_pointer.h"
#include "tessera/config/families/alike.h"
#include "tessera/config/fields/key_groups.h"
#include "tessera/config/published_keys.h"

namespace tessera {
namespace {

// The keys that must agree with the YAML and are taken where it is silent, beside those of latent
// attention and of experts.
constexpr std::string_view kShapingKeys[] = {
    "model.vocab_size",
    "model.hidden_size",
    "model.intermediate_size",
    "model.num_hidden_layers",
    "model.num_attention_heads",
    "model.num_key_value_heads",
    "model.head_dim",
    "model.hidden_act",
    "model.rms_norm_eps",
    "model.rope_theta",
    "model.attention_bias",
    "model.mlp_bias",
    "model.tie_word_embeddings",
    "model.n_routed_experts",
    "model.num_nextn_predict_layers",
    "model.sliding_window",
    "model.layer_types",
    "model.use_sliding_window",
    "model.max_window_layers",
    "model.rope_local_base_freq",
    "model.partial_rotary_factor",
    "model.query_pre_attn_scalar",
    "model.attn_logit_softcapping",
    "model.final_logit_softcapping",
    "model.activation_func_clamp_value",
    "model.original_max_position_embeddings",
    "model.qk_layernorm",
};

// Keys in which null is a value of its own.
constexpr std::string_view kNullableKeys[] = {"model.q_lora_rank", "model.sliding_window",
                                              "model.attn_logit_softcapping",
                                              "model.final_logit_softcapping"};

// Taken where the YAML is silent; not compared: alone it changes nothing.
constexpr std::string_view kTakenKeys[] = {"model.max_position_embeddings"};

bool is_wanted(std::string_view path, const Family* family) {
  if (path == "model.head_dim" && family && family->design.attention == AttentionKind::kLatent) {
    return false;
  }
  return path.starts_with("model.rope_scaling.") || holds(kShapingKeys, path) ||
         holds(kLatentKeys, path) || holds(kPublishedExpertKeys, path) || holds(kTakenKeys, path);
}

void report(std::vector<Issue>& issues, const Value& at, std::string field, std::string rule) {
  Issue issue;
  issue.source = at.source;
  issue.field = std::move(field);
  issue.value = at.kind == Value::Kind::kScalar ? display(at) : "";
  issue.rule = std::move(rule);
  issues.push_back(std::move(issue));
}

// Things a published model may have and the families here have not. MXFP4 is read where the files
// have its tensors (storage/mxfp4.h).
void refuse_foreign(const Value& document, std::vector<Issue>& issues) {
  const Value* quantized = document.find("quantization_config");
  if (!quantized || quantized->is_null()) return;
  const Value* method = quantized->find("quant_method");
  if (method && method->text == "mxfp4") return;
  report(issues, method ? *method : *quantized,
         method ? "quantization_config.quant_method" : "quantization_config",
         "quantized weights are not read, but for those in mxfp4");
}

// What is said twice must be the same.
void add_key(const Given& given, std::vector<Given>& keys, std::vector<Issue>& issues) {
  const auto earlier = std::ranges::find(keys, given.field, &Given::field);
  if (earlier == keys.end()) {
    keys.push_back(given);
  } else if (!say_the_same(*earlier, given)) {
    report(issues, *given.value, given.written,
           "contradicts " + earlier->written + " = " + display(*earlier->value));
  }
}

void collect(const HfConfig& hf, std::string_view section, const Value& map,
             std::vector<Given>& keys, std::vector<Issue>& issues);

// The rotary embedding, or one for each kind of layer: then that of layers with a window may differ
// in its base alone.
void collect_rope(const HfConfig& hf, const Value& map, std::vector<Given>& keys,
                  std::vector<Issue>& issues) {
  const Value* full = map.find(kFullLayer);
  if (!full) return collect(hf, "model.rope_scaling", map, keys, issues);
  collect(hf, "model.rope_scaling", *full, keys, issues);
  const Value* windowed = map.find(kWindowedLayer);
  if (!windowed) return;
  for (const Value::Entry& entry : windowed->entries) {
    if (entry.key == "rope_theta") {
      add_key({find_field("model.rope_local_base_freq"), entry.key, &entry.value}, keys, issues);
    } else if (entry.key == "rope_type" && entry.value.text != "default") {
      report(issues, entry.value, "rope_parameters.sliding_attention.rope_type",
             "must be default for layers with a window");
    }
  }
}

// As `model` of a YAML file, without what the reader does not know.
void collect(const HfConfig& hf, std::string_view section, const Value& map,
             std::vector<Given>& keys, std::vector<Issue>& issues) {
  for (const Value::Entry& entry : map.entries) {
    const std::string name = canonical_key(section, entry.key);
    if (section == "model" && name == "rope_scaling") {
      if (entry.value.kind == Value::Kind::kMap) collect_rope(hf, entry.value, keys, issues);
      continue;
    }
    std::string path = std::string(section) + "." + name;
    for (const std::string_view outer : {"rope_theta", "partial_rotary_factor"}) {
      if (path == "model.rope_scaling." + std::string(outer)) path = "model." + std::string(outer);
    }
    const Field* field = find_field(path);
    if (!field || entry.value.is_null() || !is_wanted(path, hf.family.get())) {
      if (!field || !entry.value.is_null() || !holds(kNullableKeys, path)) continue;
    }
    add_key({field, entry.key, &entry.value}, keys, issues);
  }
}

// What a file asks for and nothing here knows would be left out in silence.
void refuse_unknown(const HfConfig& hf, std::vector<Issue>& issues) {
  if (!hf.family) return;
  for (const Value::Entry& entry : hf.document.entries) {
    const std::string path = "model." + canonical_key("model", entry.key);
    if (check_published_key(entry, issues) || has_no_effect(entry.key) || entry.value.is_null() ||
        find_field(path) != nullptr) {
      continue;
    }
    report(issues, entry.value, entry.key,
           "is no key of " + hf.model_type +
               " that is known here: what it asks for would be left out");
  }
}

std::string model_type_of(const Value& document, const FamilyTable& families,
                          const std::string& otherwise) {
  if (const Value* type = document.find("model_type"); type && !type->text.empty()) {
    return type->text;
  }
  if (const Value* names = document.find("architectures")) {
    for (const Value& name : names->items) {
      if (const auto family = families.find_architecture(name.text)) return family->model_type;
      if (const AlikeModel* alike = find_alike_model(name.text))
        return std::string(alike->model_type);
    }
  }
  return otherwise;
}

}  // namespace

std::unique_ptr<HfConfig> read_hf_config(const std::string& directory, const FamilyTable& families,
                                         const std::string& otherwise, std::vector<Issue>& issues) {
  const std::string path = (std::filesystem::path(directory) / "config.json").string();
  auto hf = std::make_unique<HfConfig>();
  hf->document.source = {path, 0};
  if (const std::string problem = lfs_pointer_problem(path); !problem.empty()) {
    report(issues, hf->document, "", problem);
    return nullptr;
  }
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  const size_t before = issues.size();
  std::string json = text.str();
  if (json.starts_with("\xEF\xBB\xBF")) json.erase(0, 3);  // a byte-order mark
  hf->document = parse_document(json, path, issues);
  if (issues.size() > before) return nullptr;
  if (hf->document.kind != Value::Kind::kMap) {
    report(issues, hf->document, "", "must be a JSON object");
    return nullptr;
  }
  hf->model_type = model_type_of(hf->document, families, otherwise);
  if (hf->model_type.empty()) {
    report(issues, hf->document, "model.model_type",
           "is not there, and architectures names no known family; put it there, or give "
           "model.model_type, one of " +
               families.names());
  }
  hf->family = families.find(hf->model_type);
  if (const AlikeModel* alike = hf->family ? nullptr : find_alike_model(hf->model_type)) {
    read_as_family(*alike, hf->document, issues);
    hf->model_type = alike->family;
    hf->family = families.find(hf->model_type);
  }
  for (const std::string_view key : {"dtype", "torch_dtype"}) {
    if (const Value* type = hf->document.find(key)) hf->dtype = dtype_from_string(type->text);
  }
  refuse_foreign(hf->document, issues);
  refuse_unknown(*hf, issues);
  collect(*hf, "model", hf->document, hf->keys, issues);

  const std::vector<FieldText> implied =
      hf->family ? hf->family->hf_implied : std::vector<FieldText>();
  hf->implied.reserve(implied.size() + 1);  // the keys point into it
  const auto imply = [&](std::string_view key, std::string_view text) {
    const Field* field = find_field(key);
    if (std::ranges::find(hf->keys, field, &Given::field) != hf->keys.end()) return;
    Value value;
    value.text = text;
    value.source = {path, 0};
    hf->implied.push_back(std::move(value));
    hf->keys.push_back({field, "model_type " + hf->model_type, &hf->implied.back()});
  };
  for (const auto& [key, value] : implied) imply(key, value);
  if (hf->document.find("rope_scaling") || hf->document.find("rope_parameters")) {
    imply("model.rope_scaling.rope_type", "default");
  }
  return hf;
}

}  // namespace tessera
