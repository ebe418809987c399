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

std::optional<Span> SearchPattern::find(std::string_view text, size_t from,
                                        RegexScratch& scratch) const {
  if (!regex_) {
    const size_t found = text.find(string_, from);
    if (found == std::string_view::npos) return std::nullopt;
    return Span{found, found + string_.size()};
  }
  while (from <= text.size()) {
    const std::optional<Span> match = regex_->find(text, from, scratch);
    if (!match || match->end > match->begin) return match;
    from = match->end;
    if (from == text.size()) break;
    next_code_point(text, from);
  }
  return std::nullopt;
}

std::string SearchPattern::replace(std::string_view text, std::string_view content,
                                   RegexScratch& scratch) const {
  std::string out;
  size_t done = 0;
  while (const auto match = find(text, done, scratch)) {
    out.append(text.substr(done, match->begin - done)).append(content);
    done = match->end;
  }
  return out.append(text.substr(done));
}

}  // namespace tessera
