#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tessera/data/tokenizer/json_node.h"
#include "tessera/data/tokenizer/regex.h"

namespace tessera {

/// Changes a text before it is cut. Immutable.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual std::string apply(std::string_view text, RegexScratch& scratch) const = 0;
};

/// `normalizer` of a tokenizer.json: NFC, NFD, NFKC, NFKD, Prepend, Replace, Lowercase, Strip,
/// Sequence. Throws ConfigError for another.
std::unique_ptr<const Normalizer> make_normalizer(const JsonNode& node);

}  // namespace tessera
