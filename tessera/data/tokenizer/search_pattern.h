#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/data/tokenizer/json_node.h"
#include "tessera/data/tokenizer/regex.h"

namespace tessera {

/// What a tokenizer.json looks for in a text: {"String": ...} or {"Regex": ...}.
class SearchPattern {
 public:
  explicit SearchPattern(const JsonNode& node);
  /// A regex of our own.
  explicit SearchPattern(std::string_view regex) : regex_(std::make_shared<const Regex>(regex)) {}

  /// The match that follows `last`, or the first one. It may be without a character, though not
  /// directly at the end of `last`.
  std::optional<Span> next(std::string_view text, const std::optional<Span>& last,
                           RegexScratch& scratch) const;
  /// `text` with `content` in place of every match.
  std::string replace(std::string_view text, std::string_view content, RegexScratch& scratch) const;

 private:
  std::string string_;  // if there is no regex; never empty
  std::shared_ptr<const Regex> regex_;
};

}  // namespace tessera
