#pragma once

// A static-graph file of the reference (parallel_config, runner_config, model.model_config) as the
// form that this program reads. What decides the training is carried over or named; nothing is
// guessed.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/config/yaml/value.h"

namespace tessera {

/// Whether a document has the sections of a static-graph file.
bool is_static_graph(const Value& root);

/// What is said of such a file that is given to another command.
std::string static_graph_rule(const std::string& path);

struct Conversion {
  std::string yaml;
  /// What changes the training, or could not be told: one sentence each, with the line.
  std::vector<std::string> changes;
  int64_t ranks = 1;  // of the layout that the file asks for
};

/// `name` stands for the file in messages; relative paths in it start at `directory`. `samples`:
/// rows of the data, where the file does not say how many (loaders other than Megatron's). Throws
/// ConfigError for what is no static-graph file of a training run.
Conversion convert_static_graph(const std::string& text, const std::string& name,
                                const std::string& directory, std::optional<int64_t> samples);

}  // namespace tessera
