#include "tessera/data/tokenizer/search_pattern.h"

#include "tessera/base/error.h"
#include "tessera/data/tokenizer/unicode.h"

namespace tessera {

SearchPattern::SearchPattern(const JsonNode& node) {
  node.only({"String", "Regex"});
  if (const auto regex = node.find("Regex")) {
    try {
      regex_ = std::make_shared<const Regex>(regex->text());
    } catch (const ConfigError& error) {
      regex->refuse(error.what());
    }
  } else {
    string_ = node.text("String");
    if (string_.empty()) node.at("String").refuse("must not be empty");
  }
}

std::optional<Span> SearchPattern::next(std::string_view text, const std::optional<Span>& last,
                                        RegexScratch& scratch) const {
  size_t from = last ? last->end : 0;
  if (!regex_) {
    const size_t found = text.find(string_, from);
    if (found == std::string_view::npos) return std::nullopt;
    return Span{found, found + string_.size()};
  }
  std::optional<Span> match = regex_->find(text, from, scratch);
  if (match && last && match->end == from) {
    if (from == text.size()) return std::nullopt;
    next_code_point(text, from);
    match = regex_->find(text, from, scratch);
  }
  return match;
}

std::string SearchPattern::replace(std::string_view text, std::string_view content,
                                   RegexScratch& scratch) const {
  std::string out;
  size_t done = 0;
  for (std::optional<Span> match; (match = next(text, match, scratch)); done = match->end) {
    out.append(text.substr(done, match->begin - done)).append(content);
  }
  return out.append(text.substr(done));
}

}  // namespace tessera
