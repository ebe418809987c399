// Rules of tensor_parallel.

#include "tessera/rules/checker.h"

namespace tessera {
namespace {

bool kv_fits(int64_t kv_heads, int64_t degree) {
  return kv_heads % degree == 0 || degree % kv_heads == 0;
}

bool has_dense_layer(const ModelConfig& m) {
  if (!m.is_moe()) return true;
  for (int64_t layer = 0; layer < m.num_hidden_layers; ++layer) {
    if (!m.is_moe_layer(layer)) return true;
  }
  return false;
}

bool legal(const ModelConfig& m, int64_t degree, bool dense) {
  return m.num_attention_heads % degree == 0 &&
         (m.has_latent_attention() || kv_fits(m.num_key_value_heads, degree)) &&
         (!dense || m.intermediate_size % degree == 0);
}

}  // namespace

void check_tensor_parallel(Checker& check) {
  constexpr std::string_view kField = "parallelism.tensor_parallel";
  const ModelConfig& m = check.config.model;
  const int64_t tp = check.config.parallelism.tensor_parallel;
  if (!check.model_ok || tp <= 1 || tp > (1 << 20)) return;
  if (!check.good({"model.num_attention_heads", "model.num_key_value_heads",
                   "model.intermediate_size", "model.num_hidden_layers", "model.moe_layer_freq",
                   "model.decoder_sparse_step"})) {
    return;
  }
  const bool dense = has_dense_layer(m);
  std::vector<int64_t> degrees;
  for (const int64_t degree : divisors(m.num_attention_heads)) {
    if (legal(m, degree, dense)) degrees.push_back(degree);
  }
  const std::string nearest = nearest_of(degrees, tp);
  if (m.num_attention_heads % tp != 0) {
    check.error(kField,
                "must divide num_attention_heads (" + std::to_string(m.num_attention_heads) + ")",
                nearest);
  }
  // With as many kv heads as heads the line above has said it.
  const bool grouped = !m.has_latent_attention() && m.num_key_value_heads != m.num_attention_heads;
  if (grouped && !kv_fits(m.num_key_value_heads, tp)) {
    check.error(kField,
                "must divide num_key_value_heads (" + std::to_string(m.num_key_value_heads) +
                    ") or be a multiple of it",
                nearest);
  }
  if (dense && m.intermediate_size % tp != 0) {
    check.error(kField,
                "must divide intermediate_size (" + std::to_string(m.intermediate_size) + ")",
                nearest);
  }
  const TrainingConfig& training = check.config.training;
  const int64_t cp = check.config.parallelism.context_parallel;
  if (!check.good(
          {"training.local_batch_size", "model.seq_length", "parallelism.context_parallel"}) ||
      m.seq_length % cp != 0) {
    return;
  }
  const int64_t tokens = training.local_batch_size * (m.seq_length / cp);
  if (tokens % tp != 0) {
    check.error(kField,
                "must divide the tokens of a rank (local_batch_size " +
                    std::to_string(training.local_batch_size) + " x seq_length " +
                    std::to_string(m.seq_length) + " / context_parallel " + std::to_string(cp) +
                    " = " + std::to_string(tokens) + "): sequence parallelism cuts them",
                nearest_divisors(tokens, tp));
  }
}

}  // namespace tessera
