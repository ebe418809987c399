#pragma once

// Which matrices of a model have low-rank adapters, and what the adapters are called.

#include <string>
#include <vector>

#include "tessera/config/model_config.h"
#include "tessera/layout/model_spec.h"
#include "tessera/layout/placement.h"

namespace tessera {

/// "model.layers.0.self_attn.q_proj.lora_A.weight" of "model.layers.0.self_attn.q_proj.weight".
std::string adapter_name(const std::string& matrix, AdapterSide side);

/// The paths under which a pattern of `lora_config` may name the matrix `spec`: Hugging Face's
/// ("model.layers.0.self_attn.q_proj"), then MindFormers'
/// ("model.decoder.layers.0.self_attention.linear_qkv"). Empty: it is no matrix that can have an
/// adapter (norms, biases, routers, the embedding, a tied head).
std::vector<std::string> adapter_paths(const ParamSpec& spec, const ModelConfig& model);

/// The parameters of the plain model `plain`, all frozen, each matrix that model.lora names
/// followed by its A [rank, in] and its B [out, rank]. Of the experts of a layer all are adapted or
/// none: those of which some are named are left out here and refused by the rules. Throws
/// ConfigError for a pattern that is no regular expression.
std::vector<ParamSpec> with_adapters(std::vector<ParamSpec> plain, const ModelConfig& model);

/// The first layer (as ParamSpec::layer counts) in which something is trained: -1, with the
/// embedding, in a model without adapters; the largest number where the head alone has an adapter.
int64_t first_trained_layer(const ModelConfig& model);

/// Why `pattern` is no regular expression; empty: it is one.
std::string pattern_problem(const std::string& pattern);

/// What the patterns of model.lora find.
struct AdapterMatches {
  size_t matrices = 0;                    // with an adapter; experts one by one
  bool names_embedding = false;           // it says "embed" and finds the embedding
  bool of_experts = false;                // some of them are routed experts
  std::vector<std::string> some_experts;  // layers' experts of which only some are named
  std::vector<std::string> candidates;    // all paths that could be named, of the first layers
};
AdapterMatches adapter_matches(const ModelConfig& model);

}  // namespace tessera
