#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tessera/data/tokenizer/function_ref.h"
#include "tessera/data/tokenizer/json_node.h"

namespace tessera {

/// One of `added_tokens` of a tokenizer.json: a text that is found before anything is cut.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // not between word characters
  bool lstrip = false;       // takes the white space in front of it
  bool rstrip = false;       // takes the white space behind it
  bool normalized = true;    // is looked for in the normalized text
  bool special = false;      // is left out when decoding without special tokens
};

/// Throws ConfigError for what is not known.
std::vector<AddedToken> read_added_tokens(const JsonNode& node);

/// Texts that are looked for together: the first place counts, and the longest there.
class AddedTokenFinder {
 public:
  /// Adds `text`, which stands for `token` (whose flags hold). Of two tokens with one
  /// normal form the first counts (in the field's library chance decides).
  void add(std::string_view text, const AddedToken& token);
  bool empty() const { return tokens_.empty(); }

  /// Calls `on_token(id)` and `on_text(part, begins_at)` in the order of the text. Tokens of
  /// `as_text` (none: nullptr) are found, but stay text.
  void split(std::string_view text, const std::unordered_set<int32_t>* as_text,
             FunctionRef<void(int32_t)> on_token,
             FunctionRef<void(std::string_view, size_t)> on_text) const;

 private:
  static constexpr int32_t kNone = -1;
  struct Found {
    size_t begin, end;
    const AddedToken* token;
  };

  int32_t child(int32_t node, char byte) const;
  std::optional<Found> find(std::string_view text, size_t from) const;

  std::vector<AddedToken> tokens_;
  std::vector<int32_t> token_of_node_{kNone};          // the root has none
  std::unordered_map<uint64_t, int32_t> children_;     // node and byte
  std::vector<bool> begins_ = std::vector<bool>(256);  // bytes that a text begins with
};

}  // namespace tessera
