#include "tessera/config/fields/field.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <unordered_map>

namespace tessera {

const std::vector<Field>& all_fields() {
  static const std::vector<Field> fields = [] {
    std::vector<Field> joined;
    for (auto* table :
         {run_fields, parallelism_fields, optimizer_fields, dataset_fields, model_fields,
          moe_fields, memory_fields, observe_fields, inference_fields, unbuilt_fields}) {
      std::ranges::copy(table(), std::back_inserter(joined));
    }
    return joined;
  }();
  return fields;
}

const Field* find_field(std::string_view path) {
  static const std::unordered_map<std::string_view, const Field*> index = [] {
    std::unordered_map<std::string_view, const Field*> map;
    for (const Field& field : all_fields()) map.emplace(field.path, &field);
    return map;
  }();
  const auto found = index.find(path);
  return found == index.end() ? nullptr : found->second;
}

bool is_section(std::string_view path) {
  static const std::set<std::string, std::less<>> sections = [] {
    std::set<std::string, std::less<>> all;
    for (const Field& field : all_fields()) {
      for (size_t dot = field.path.find('.'); dot != std::string_view::npos;
           dot = field.path.find('.', dot + 1)) {
        all.emplace(field.path.substr(0, dot));
      }
    }
    return all;
  }();
  return sections.contains(path);
}

std::vector<std::string> names_in(std::string_view section) {
  std::vector<std::string> names;
  const std::string prefix = section.empty() ? "" : std::string(section) + ".";
  for (const Field& field : all_fields()) {
    if (!field.path.starts_with(prefix)) continue;
    const std::string_view rest = field.path.substr(prefix.size());
    const std::string name(rest.substr(0, rest.find('.')));
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  for (const Alias& alias : all_aliases()) {
    if (alias.section == section) names.emplace_back(alias.name);
  }
  return names;
}

std::string canonical_key(std::string_view section, std::string_view name) {
  for (const Alias& alias : all_aliases()) {
    if (alias.section == section && alias.name == name) return std::string(alias.first);
  }
  return std::string(name);
}

const std::vector<Alias>& all_aliases() {
  static const std::vector<Alias> aliases = {
      {"model", "num_layers", "num_hidden_layers"},
      {"model", "ffn_hidden_size", "intermediate_size"},
      {"model", "num_query_groups", "num_key_value_heads"},
      {"model", "kv_channels", "head_dim"},
      {"model", "layernorm_epsilon", "rms_norm_eps"},
      {"model", "rotary_base", "rope_theta"},
      {"model", "add_qkv_bias", "attention_bias"},
      {"model", "init_method_std", "initializer_range"},
      {"model", "rope_parameters", "rope_scaling"},
      {"model", "hidden_activation", "hidden_act"},
      {"model", "swiglu_limit", "activation_func_clamp_value"},
      {"model", "window_size", "sliding_window"},
      {"model", "use_qk_norm", "qk_layernorm"},
      {"model", "rotary_interleaved", "rope_interleave"},
      {"model", "qk_pos_emb_head_dim", "qk_rope_head_dim"},
      {"model", "num_experts", "n_routed_experts"},
      {"model", "num_local_experts", "n_routed_experts"},
      {"model", "num_moe_experts", "n_routed_experts"},
      {"model", "moe_router_topk", "num_experts_per_tok"},
      {"model", "shared_expert_num", "n_shared_experts"},
      {"model", "moe_ffn_hidden_size", "moe_intermediate_size"},
      {"model", "moe_router_num_groups", "n_group"},
      {"model", "moe_router_group_topk", "topk_group"},
      {"model", "moe_router_topk_scaling_factor", "routed_scaling_factor"},
      {"model", "scoring_func", "moe_router_score_function"},
      {"model", "router_dense_type", "moe_router_dtype"},
      {"model", "mtp_num_layers", "num_nextn_predict_layers"},
      {"model", "mtp_loss_scaling_factor", "mtp_loss_factor"},
      {"model.rope_scaling", "type", "rope_type"},
      {"train_dataset.dataloader.config", "compressed_eod_mask_length", "eod_pad_length"},
      {"train_dataset.dataloader", "compressed_eod_mask_length", "eod_pad_length"},
      {"monitor.tensorboard", "tensorboard_dir", "output_dir"},
      {"monitor.tensorboard", "tensorboard_log_interval", "log_interval"},
      {"monitor.tensorboard", "tensorboard_queue_size", "queue_size"},
  };
  return aliases;
}

}  // namespace tessera
