#include "tessera/data/tokenizer/added_tokens.h"

#include <algorithm>

#include "tessera/data/tokenizer/unicode.h"

namespace tessera {

namespace {

bool stands_alone(std::string_view text, size_t begin, size_t end) {
  if (size_t at = begin; at > 0 && is_word_character(previous_code_point(text, at))) return false;
  size_t at = end;
  return at == text.size() || !is_word_character(next_code_point(text, at));
}

}  // namespace

std::vector<AddedToken> read_added_tokens(const JsonNode& node) {
  std::vector<AddedToken> tokens;
  for (const JsonNode& item : node.items()) {
    item.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    AddedToken token;
    token.id = static_cast<int32_t>(item.at("id").integer(0));
    token.content = item.text("content");
    token.single_word = item.flag("single_word", false);
    token.lstrip = item.flag("lstrip", false);
    token.rstrip = item.flag("rstrip", false);
    token.special = item.flag("special", false);
    token.normalized = item.flag("normalized", !token.special);
    if (item.at("id").value() > INT32_MAX - 1) item.at("id").refuse("is too large");
    tokens.push_back(std::move(token));
  }
  return tokens;
}

void AddedTokenFinder::add(std::string_view text, const AddedToken& token) {
  if (text.empty()) return;
  int32_t node = 0;
  for (const char byte : text) {
    const auto next = static_cast<int32_t>(token_of_node_.size());
    const uint64_t key = static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(byte);
    const auto [entry, is_new] = children_.try_emplace(key, next);
    if (is_new) token_of_node_.push_back(kNone);
    node = entry->second;
  }
  int32_t& own = token_of_node_[static_cast<size_t>(node)];
  if (own != kNone) return;
  own = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(token);
  begins_[static_cast<uint8_t>(text[0])] = true;
}

int32_t AddedTokenFinder::child(int32_t node, char byte) const {
  const auto found = children_.find(static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(byte));
  return found == children_.end() ? kNone : found->second;
}

std::optional<AddedTokenFinder::Found> AddedTokenFinder::find(std::string_view text,
                                                              size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!begins_[static_cast<uint8_t>(text[begin])]) continue;
    std::optional<Found> longest;
    int32_t node = 0;
    for (size_t at = begin; at < text.size();) {
      node = child(node, text[at++]);
      if (node == kNone) break;
      const int32_t token = token_of_node_[static_cast<size_t>(node)];
      if (token != kNone) longest = Found{begin, at, &tokens_[static_cast<size_t>(token)]};
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

void AddedTokenFinder::split(std::string_view text, const std::unordered_set<int32_t>* as_text,
                             FunctionRef<void(int32_t)> on_token,
                             FunctionRef<void(std::string_view, size_t)> on_text) const {
  size_t done = 0;
  size_t from = 0;
  while (const auto found = find(text, from)) {
    const AddedToken& token = *found->token;
    size_t begin = found->begin, end = found->end;
    from = end;
    if (as_text && as_text->contains(token.id)) continue;
    if (token.single_word && !stands_alone(text, begin, end)) continue;
    if (token.lstrip) begin = std::max(done, stripped(text.substr(0, begin), false, true).size());
    if (token.rstrip) end = text.size() - stripped(text.substr(end), true, false).size();
    if (begin > done) on_text(text.substr(done, begin - done), done);
    // A token of white space that the one in front of it took stands for nothing any more.
    if (begin < end) on_token(token.id);
    done = end;
  }
  if (done < text.size()) on_text(text.substr(done), done);
}

}  // namespace tessera
