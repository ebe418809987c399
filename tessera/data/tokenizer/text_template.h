#pragma once

#include <cstdint>
#include <vector>

#include "tessera/data/tokenizer/json_node.h"

namespace tessera {

/// What a tokenizer puts around the ids of a text: `post_processor` of a tokenizer.json
/// (TemplateProcessing, ByteLevel, Sequence).
struct TextTemplate {
  std::vector<int32_t> before;
  std::vector<int32_t> after;
};

/// Throws ConfigError for what is not known.
TextTemplate read_text_template(const JsonNode& node);

}  // namespace tessera
