// model.model_config, recompute_config, and what is left.

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

#include "tessera/config/fields/field.h"
#include "tessera/config/paths.h"
#include "tessera/config/static_graph/parts.h"

namespace tessera::static_graph {
namespace {

constexpr const char* kOld = "model.model_config";

struct Renamed {
  std::string_view from, to;
};
constexpr Renamed kRenamed[] = {
    {"padded_vocab_size", "vocab_size"},
    {"num_layers", "num_hidden_layers"},
    {"ffn_hidden_size", "intermediate_size"},
    {"layernorm_epsilon", "rms_norm_eps"},
    {"multi_query_group_num", "num_key_value_heads"},
    {"layernorm_compute_type", "layernorm_compute_dtype"},
    {"param_init_type", "params_dtype"},
    {"mtp_loss_scaling_factor", "mtp_loss_factor"},
    {"num_experts", "n_routed_experts"},
    {"router_dense_type", "moe_router_dtype"},
    {"scoring_func", "moe_router_score_function"},
};

// Kernels, buffers, generation: nothing of the training.
constexpr std::array<std::string_view, 18> kDropped = {"qkv_concat",
                                                       "mlp_concat",
                                                       "input_sliced_sig",
                                                       "use_past",
                                                       "batch_size",
                                                       "use_fused_ops_topkrouter",
                                                       "use_contiguous_weight_layout_attention",
                                                       "bias_swiglu_fusion",
                                                       "do_sample",
                                                       "top_k",
                                                       "top_p",
                                                       "temperature",
                                                       "max_decode_length",
                                                       "repetition_penalty",
                                                       "checkpoint_name_or_path",
                                                       "use_cache",
                                                       "untie_embeddings_and_output_weights",
                                                       "tie_word_embeddings"};

// Other keys say nothing of how a model is trained, by where they stand.
struct Dropped {
  std::string_view prefix;
  std::string_view why;
  bool as_a_whole = false;  // one comment for the section
};
constexpr Dropped kRest[] = {
    {"auto_trans_ckpt", "a checkpoint is read into any layout"},
    {"src_strategy_path_or_dir", "a checkpoint is read into any layout"},
    {"only_save_strategy", "a checkpoint is read into any layout"},
    {"transform_process_num", "a checkpoint is read into any layout"},
    {"use_legacy", "of the reference's own code"},
    {"trainer", "of the reference's own code", true},
    {"processor", "of the reference's own code", true},
    {"metric", "there is no evaluation of this form"},
    {"print_separate_loss", "losses are always told apart"},
    {"train_dataset_task", "repeats train_dataset", true},
    {"train_dataset.seed", "data.config.seed decides"},
    {"eval_dataset", "there is no evaluation of this form", true},
    {"eval_dataset_task", "there is no evaluation of this form", true},
    {"do_eval", "there is no evaluation of this form"},
    {"context", "of the graph compiler"},
    {"parallel_config.use_seq_parallel", "follows tensor_parallel, with the same numbers"},
    {"parallel_config.vocab_emb_dp", "follows tensor_parallel, with the same numbers"},
    {"parallel_config.gradient_aggregation_group", "order of messages only"},
    {"parallel_config.use_ring_attention", "context_parallel_exchange chooses by size"},
    {"parallel", "of the graph compiler"},
    {"runner_config.sink_mode", "of the graph compiler"},
    {"runner_config.sink_size", "of the graph compiler"},
    {"runner_config", "of the graph compiler"},
    {"runner_wrapper.type", "there is one way to train a step"},
    {"optimizer.learning_rate", "lr_scheduler decides"},
    {"optimizer.swap", "memory only; parallelism.cpu_offload is nearest"},
    {"recompute_config", "memory only; recompute.select_module is nearest"},
    {"swap_config", "memory only; swap is not built"},
    {"profile", "see `tessera train --trace`"},
    {"profiler_level", "see `tessera train --trace`"},
    {"init_start_profile", "see `tessera train --trace`"},
    {"layer_scale", "read by vision models only"},
    {"layer_decay", "read by vision models only"},
    {"lr_scale", "read by vision models only"},
    {"lr_scale_factor", "read by vision models only"},
    {"auto_tune", "of the reference's own code"},
    {"filepath_prefix", "of the reference's own code"},
    {"autotune_per_step", "of the reference's own code"},
    {"remote_save_url", "of the reference's own code"},
    {"monitor_config", "see the section monitor"},
    {"ignore_data_skip", "a resumed run goes on in the data"},
};

bool lies_in(std::string_view path, std::string_view prefix) {
  return path == prefix || (path.starts_with(prefix) && path[prefix.size()] == '.') ||
         (prefix == "profile" && path.starts_with("profile_"));
}

void copy_key(Work& work, const std::string& key, const Value& value) {
  const auto* const renamed = std::ranges::find(kRenamed, key, &Renamed::from);
  const std::string name(renamed == std::end(kRenamed) ? key : std::string(renamed->to));
  if (name == "moe_router_load_balancing_type" &&
      (value.text == "gbs_aux_loss" || value.text == "sub_seq_aux_loss")) {
    const bool of_batch = value.text == "gbs_aux_loss";
    const std::string nearest = !of_batch                 ? "seq_aux_loss"
                                : work.micro_batches == 1 ? "global_aux_loss"
                                                          : "aux_loss";
    const Value* coefficient = work.old.peek("model.model_config.moe_aux_loss_coeff");
    if (coefficient != nullptr && parse_float(coefficient->text).value_or(0) != 0) {
      work.change(&value, "moe_router_load_balancing_type: " + value.text + " becomes " + nearest +
                              ", the nearest that is built");
    }
    work.file.add("model", name, nearest, value.text + " before");
    return;
  }
  const std::string path = "model." + canonical_key("model", name);
  if (find_field(path) == nullptr && !is_section(path)) {
    work.change(&value, std::string(kOld) + "." + key + " has no counterpart");
    return;
  }
  work.file.add("model", name, flow(value));
}

// untie_embeddings_and_output_weights is tie_word_embeddings the other way round.
void convert_tie(Work& work, const Value& model) {
  const Value* untied = model.find("untie_embeddings_and_output_weights");
  const Value* tied = model.find("tie_word_embeddings");
  if (tied != nullptr && !tied->is_null()) {
    work.file.add("model", "tie_word_embeddings", flow(*tied));
  } else if (untied != nullptr && !untied->is_null()) {
    work.file.add("model", "tie_word_embeddings",
                  parse_bool(untied->text) == true ? "false" : "true");
  }
}

}  // namespace

void find_layers(Work& work, const std::string& directory) {
  const auto number = [](const Value& map, std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) {
      const Value* value = map.find(name);
      if (value != nullptr && !value->is_null()) return parse_int(value->text);
    }
    return std::optional<long long>();
  };
  Value published;
  published.kind = Value::Kind::kMap;
  const Value* folder = work.old.peek("pretrained_model_dir");
  if (folder != nullptr && !folder->text.empty()) {
    std::ifstream file(resolve_path(directory, folder->text) + "/config.json");
    std::ostringstream text;
    text << file.rdbuf();
    std::vector<Issue> ignored;
    if (file) published = parse_document(text.str(), "config.json", ignored);
  }
  Value empty;
  empty.kind = Value::Kind::kMap;
  const Value* model = work.old.peek(kOld);
  if (model == nullptr) model = &empty;
  for (const Value* map : {static_cast<const Value*>(&published), model}) {
    if (map->kind != Value::Kind::kMap) continue;
    if (const auto layers = number(*map, {"num_hidden_layers", "num_layers"})) {
      work.layers = *layers;
    }
    work.prediction_layers = number(*map, {"num_nextn_predict_layers", "mtp_num_layers"})
                                 .value_or(work.prediction_layers);
  }
}

void convert_model(Work& work) {
  const Value* model = work.old.take(kOld);
  if (model == nullptr) {
    work.change(nullptr, "the file has no model.model_config");
    return;
  }
  for (const Value::Entry& entry : model->entries) {
    const std::string& key = entry.key;
    const bool elsewhere = key == "offset" || key == "pp_interleave_num" ||
                           key == "moe_token_dispatcher_type" ||
                           key == "npu_nums_per_device";  // see convert_layout
    if (entry.value.is_null() || elsewhere) continue;
    if (std::ranges::find(kDropped, key) != kDropped.end()) continue;
    copy_key(work, key, entry.value);
  }
  convert_tie(work, *model);
  const Value* old_experts = work.old.take("moe_config.expert_num");
  if (old_experts != nullptr && parse_int(old_experts->text).value_or(1) > 1) {
    work.change(old_experts, "moe_config: experts of the old models are not built");
  }
  work.old.take("moe_config");
}

void convert_recomputation(Work& work) {
  Leaves& old = work.old;
  const Value* recompute = old.take("recompute_config.recompute");
  if (recompute == nullptr) return;
  const auto layer_range = [](int64_t first, int64_t last) {
    return "\"" + std::to_string(first) + (last > first ? "-" + std::to_string(last) : "") + "\"";
  };
  const bool all = recompute->kind == Value::Kind::kScalar && parse_bool(recompute->text) == true;
  if (recompute->kind == Value::Kind::kScalar && !all) return;
  if (all && work.layers) {
    work.file.add("recompute", "mode", "full");
    work.file.add("recompute", "full_recompute_layer",
                  "[" + layer_range(0, *work.layers + work.prediction_layers - 1) + "]");
    return;
  }
  if (all) {
    work.file.add("recompute", "mode", "None",
                  "all layers before: write mode: full and full_recompute_layer, memory only");
    return;
  }
  work.file.add("recompute", "mode", "None",
                flow(*recompute) +
                    " layers a stage before: write full_recompute_layer, memory "
                    "only");
}

std::string comment_on_rest(Work& work) {
  std::string text;
  std::string_view said;  // of the sections with one comment
  for (const Leaves::Leaf& leaf : work.old.left()) {
    const auto* const dropped = std::ranges::find_if(
        kRest, [&](const Dropped& rest) { return lies_in(leaf.path, rest.prefix); });
    if (dropped == std::end(kRest)) {
      work.change(leaf.value, leaf.path + " = " + display(*leaf.value) + " has no counterpart");
    }
    const bool as_a_whole = dropped != std::end(kRest) && dropped->as_a_whole;
    if (as_a_whole && said == dropped->prefix) continue;
    if (as_a_whole) said = dropped->prefix;
    const std::string name = as_a_whole ? std::string(dropped->prefix) : leaf.path;
    const std::string value = as_a_whole ? "{...}" : display(*leaf.value);
    const std::string why =
        dropped == std::end(kRest) ? "no counterpart" : std::string(dropped->why);
    text += "# " + line_of(*leaf.value) + ": " + name + ": " + value + " (" + why + ")\n";
  }
  for (const std::string& note : work.notes) text += "# " + note + "\n";
  std::string changes;
  for (const std::string& change : work.changes) changes += "# " + change + "\n";
  if (!changes.empty()) changes = "\n# CHANGES THE TRAINING:\n" + changes;
  if (!text.empty()) text = "\n# Not carried over, without effect on the training:\n" + text;
  return changes + text;
}

}  // namespace tessera::static_graph
