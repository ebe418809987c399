#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tessera/config/load.h"
#include "tessera/rules/validate.h"

namespace tessera::testing_config {

/// A small dense model without errors at 1, 2, 4 and 8 ranks; no file is read.
inline constexpr const char* kBase = R"(training:
  steps: 10
  local_batch_size: 1
  global_batch_size: 8
optimizer:
  type: SGD
lr_scheduler:
  type: ConstantWarmUpLR
  learning_rate: 0.1
  warmup_steps: 0
train_dataset:
  dataloader:
    type: BlendedMegatronDatasetDataLoader
    config:
      seq_length: 64
      data_path: [data/train]
      split: "1,0,0"
      create_attention_mask: false
      create_compressed_eod_mask: false
      eod: 2
      pad: 1
model:
  model_type: llama
  vocab_size: 512
  hidden_size: 64
  intermediate_size: 176
  num_hidden_layers: 4
  num_attention_heads: 8
  num_key_value_heads: 8
  head_dim: 8
  use_attn_mask_compression: true
  compute_dtype: float32
context:
  device_target: CPU
)";

/// Overrides that turn kBase into a mixture of experts.
inline std::vector<std::string> moe(std::vector<std::string> more = {}) {
  std::vector<std::string> sets = {"model.model_type=qwen3_moe", "model.num_experts=8",
                                   "model.num_experts_per_tok=2", "model.moe_intermediate_size=64"};
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

/// Overrides that turn kBase into a small DeepSeek-V3.
inline std::vector<std::string> deepseek(std::vector<std::string> more = {}) {
  std::vector<std::string> sets = {
      "model.model_type=deepseek_v3",   "model.num_experts=8",      "model.num_experts_per_tok=2",
      "model.moe_intermediate_size=32", "model.n_group=4",          "model.topk_group=2",
      "model.first_k_dense_replace=1",  "model.q_lora_rank=24",     "model.kv_lora_rank=16",
      "model.qk_nope_head_dim=16",      "model.qk_rope_head_dim=8", "model.v_head_dim=16"};
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

struct Checked {
  ConfigResult result;
  std::vector<Issue> issues;  // of reading and of validation
};

/// Reads `text` and validates it at `world` ranks.
inline Checked check_text(const std::string& text, int64_t world,
                          const std::vector<std::string>& sets = {}) {
  Checked checked;
  checked.result = load_config_text(text, "x.yaml", "/nonexistent", sets);
  checked.issues = validate(checked.result, world);
  return checked;
}

inline std::vector<Issue> check_base(int64_t world, const std::vector<std::string>& sets = {}) {
  return check_text(kBase, world, sets).issues;
}

inline std::string errors_of(const std::vector<Issue>& issues) {
  std::string out;
  for (const Issue& issue : issues) {
    if (issue.severity == Severity::kError) out += format_issue(issue) + "\n";
  }
  return out;
}

inline int count(const std::vector<Issue>& issues, Severity severity) {
  int n = 0;
  for (const Issue& issue : issues) n += issue.severity == severity;
  return n;
}

/// "an error on `field` that says `text`", in the printed form.
MATCHER_P2(HasError, field, text, "") {
  for (const Issue& issue : arg) {
    if (issue.severity == Severity::kError && issue.field == field &&
        format_issue(issue).find(text) != std::string::npos) {
      return true;
    }
  }
  *result_listener << "\n" << format_issues(arg);
  return false;
}

MATCHER_P2(HasWarning, field, text, "") {
  for (const Issue& issue : arg) {
    if (issue.severity == Severity::kWarning && issue.field == field &&
        format_issue(issue).find(text) != std::string::npos) {
      return true;
    }
  }
  *result_listener << "\n" << format_issues(arg);
  return false;
}

/// The one line of keys without effect names `key`.
MATCHER_P(NamesNoEffect, key, "") {
  for (const Issue& issue : arg) {
    if (issue.rule.starts_with("no effect here:") &&
        (issue.rule + ",").find(" " + std::string(key) + ",") != std::string::npos) {
      return true;
    }
  }
  *result_listener << "\n" << format_issues(arg);
  return false;
}

MATCHER(HasNoErrors, "") {
  *result_listener << "\n" << errors_of(arg);
  return !has_errors(arg);
}

/// A folder that is removed at the end.
class TempDir {
 public:
  TempDir() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "tessera_config_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  std::string path() const { return path_; }
  std::string write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = std::filesystem::path(path_) / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return file.string();
  }

 private:
  std::string path_;
};

}  // namespace tessera::testing_config
