#include "tessera/config/families/alike.h"

#include <algorithm>

namespace tessera {
namespace {

const std::vector<AlikeModel>& alike_models() {
  static const std::vector<AlikeModel> all = {
      {"smollm", "SmolLMForCausalLM", "llama", {}, {}},
      {"Yi", "YiForCausalLM", "llama", {}, {}},
      {"xverse", "XverseForCausalLM", "llama", {{"max_tokenizer_truncation", "", {}, ""}}, {}},
      // transformers 5.24, models/smollm3. Its defaults are not Llama's, so the keys must be there.
      {"smollm3",
       "SmolLM3ForCausalLM",
       "llama",
       {{"no_rope_layers", "", {"1"}, "a layer without rotary embedding"},
        {"no_rope_layer_interval", "", {}, ""},  // says what no_rope_layers is where that is left
                                                 // out
        {"use_sliding_window", "", {"false"}, "layers with a window"}},
       {"no_rope_layers", "tie_word_embeddings", "num_key_value_heads", "rope_theta"}},
      // transformers 5.24, models/internlm3: Llama's own classes.
      {"internlm3",
       "InternLM3ForCausalLM",
       "llama",
       {{"qkv_bias", "attention_bias", {"false"}, "biases of q, k and v"},
        {"bias", "mlp_bias", {"false"}, "biases of the other products"}},
       {"head_dim", "num_key_value_heads", "rms_norm_eps", "rope_theta"}},
      // transformers 5.24, models/iquestcoder: likewise.
      {"iquestcoder",
       "IQuestCoderForCausalLM",
       "llama",
       {{"use_sliding_window", "", {"false"}, "layers with a window"}},
       {"head_dim", "num_key_value_heads", "rms_norm_eps", "rope_theta"}},
  };
  return all;
}

void report(std::vector<Issue>& issues, const Source& source, std::string_view field,
            std::string value, std::string rule) {
  Issue issue;
  issue.source = source;
  issue.field = field;
  issue.value = std::move(value);
  issue.rule = std::move(rule);
  issues.push_back(std::move(issue));
}

bool is_legal(const AlikeKey& key, const Value& value) {
  if (key.legal.empty() || value.is_null()) return true;
  if (value.kind == Value::Kind::kSequence) {
    return std::ranges::all_of(value.items, [&](const Value& item) { return is_legal(key, item); });
  }
  return std::ranges::find(key.legal, value.text) != key.legal.end();
}

// The base of the rotary embedding may stand in a section of its own.
bool has_key(const Value& document, std::string_view name) {
  const auto is_in = [&](const Value* map) {
    const Value* value = map ? map->find(name) : nullptr;
    return value && !value->is_null();
  };
  return is_in(&document) || (name == "rope_theta" && is_in(document.find("rope_parameters")));
}

}  // namespace

const AlikeModel* find_alike_model(std::string_view name) {
  for (const AlikeModel& model : alike_models()) {
    if (model.model_type == name || model.architecture == name) return &model;
  }
  return nullptr;
}

void read_as_family(const AlikeModel& model, Value& document, std::vector<Issue>& issues) {
  const std::string read_as =
      std::string(model.model_type) + " is read as " + std::string(model.family);
  for (const std::string_view name : model.needed) {
    if (has_key(document, name)) continue;
    report(issues, document.source, name, "",
           "must be there: " + read_as + ", whose default is another");
  }
  for (const AlikeKey& key : model.keys) {
    const auto entry = std::ranges::find(document.entries, key.name, &Value::Entry::key);
    if (entry == document.entries.end()) continue;
    if (!is_legal(key, entry->value)) {
      report(issues, entry->value.source, key.name, display(entry->value),
             "is not built: " + read_as + ", which has not " + std::string(key.why));
    }
    if (!key.taken_as.empty() && !document.find(key.taken_as)) {
      entry->key = key.taken_as;
    } else {
      document.entries.erase(entry);
    }
  }
}

}  // namespace tessera
