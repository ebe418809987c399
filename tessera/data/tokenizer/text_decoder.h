#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/data/tokenizer/json_node.h"
#include "tessera/data/tokenizer/regex.h"

namespace tessera {

/// Changes the pieces of a text on their way back. Immutable.
class DecodeStep {
 public:
  virtual ~DecodeStep() = default;
  virtual void apply(std::vector<std::string>& pieces, RegexScratch& scratch) const = 0;
};

/// `decoder` of a tokenizer.json: ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace,
/// Sequence. Throws ConfigError for another.
std::vector<std::unique_ptr<const DecodeStep>> make_decoder(const JsonNode& node);

}  // namespace tessera
