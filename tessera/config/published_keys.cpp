#include "tessera/config/published_keys.h"

#include <algorithm>
#include <array>

namespace tessera {
namespace {

constexpr auto kNoEffect = std::to_array<std::string_view>({
    // of every model
    "_name_or_path",
    "architectures",
    "auto_map",
    "chunk_size_feed_forward",
    "dtype",
    "finetuning_task",
    "id2label",
    "is_decoder",
    "is_encoder_decoder",
    "label2id",
    "model_name",
    "model_type",
    "output_attentions",
    "output_hidden_states",
    "prefix",
    "problem_type",
    "pruned_heads",
    "return_dict",
    "task_specific_params",
    "tie_encoder_decoder",
    "tokenizer_class",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "transformers.js_config",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "tf_legacy_loss",
    "add_cross_attention",
    "cross_attention_hidden_size",
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_attn_implementation_internal",
    "attn_implementation",
    "_experts_implementation",
    "cache_implementation",
    "use_cache",
    "quantization_config",  // refused elsewhere
    // tokens and generation
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "unk_token_id",
    "sep_token_id",
    "decoder_start_token_id",
    "begin_suppress_tokens",
    "bad_words_ids",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "length_penalty",
    "max_length",
    "min_length",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_scores",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict_in_generate",
    "suppress_tokens",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
    // what a training file gives, or an implementation chooses
    "attention_dropout",
    "attn_pdrop",
    "embd_pdrop",
    "resid_pdrop",
    "hidden_dropout",
    "initializer_range",
    "pretraining_tp",
    "output_router_logits",
    "router_aux_loss_coef",
    "aux_loss_alpha",
    "seq_aux",
    "ep_size",
    "initial_context_length",
    "experts_per_token",
    "hidden_act",  // beside hidden_activation
    "qk_head_dim",
    "rope_scaling",
    "rope_parameters",
    "original_max_position_embeddings",
    "max_position_embeddings",
    "sliding_window_pattern",
    "_sliding_window_pattern",
});

struct Checked {
  std::string_view key;
  std::vector<std::string_view> legal;  // as written
  std::string_view why;
};

const std::vector<Checked>& checked() {
  static const std::vector<Checked> all = {
      {"use_bidirectional_attention", {"false", "null"}, "attention is causal"},
      {"router_jitter_noise", {"0", "0.0"}, "routers have no noise"},
      {"swiglu_alpha", {"1.702"}, "the slope of the gate"},
      {"rope_interleave", {"true"}, "pairs are neighbours"},
      {"clip_qkv", {"null"}, "nothing is clipped"},
      {"topk_method", {"noaux_tc", "null"}, "groups are chosen by the sum of their best two"},
  };
  return all;
}

}  // namespace

bool has_no_effect(std::string_view key) {
  return std::ranges::find(kNoEffect, key) != kNoEffect.end();
}

bool check_published_key(const Value::Entry& entry, std::vector<Issue>& issues) {
  const auto found = std::ranges::find(checked(), entry.key, &Checked::key);
  if (found == checked().end()) return false;
  const std::string value = entry.value.is_null() ? "null" : display(entry.value);
  const std::string text = entry.value.kind == Value::Kind::kScalar ? entry.value.text : value;
  if (std::ranges::find(found->legal, text) != found->legal.end() ||
      std::ranges::find(found->legal, value) != found->legal.end()) {
    return true;
  }
  Issue issue;
  issue.source = entry.value.source;
  issue.field = entry.key;
  issue.value = value;
  issue.rule = "is not built: " + std::string(found->why);
  for (const std::string_view legal : found->legal) {
    issue.nearest.append(issue.nearest.empty() ? "" : ", ").append(legal);
  }
  issues.push_back(std::move(issue));
  return true;
}

}  // namespace tessera
