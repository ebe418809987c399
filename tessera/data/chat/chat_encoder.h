#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "tessera/data/chat/chat_template.h"
#include "tessera/data/chat/conversation.h"
#include "tessera/data/tokenizer/json_tokenizer.h"

namespace tessera {

/// Ids of a conversation, and which of them carry loss as labels.
struct ChatTokens {
  std::vector<int32_t> ids;
  std::vector<uint8_t> counts;  // 1: the assistant's
};

/// Conversations to ids. The mask comes from the segments; texts never become special tokens,
/// whatever they spell. Any thread may use it.
class ChatEncoder {
 public:
  /// `name`: a template; empty: the one that the tokenizer's folder holds. Throws ConfigError: an
  /// unknown one, none in the folder that is known.
  ChatEncoder(const std::string& tokenizer_path, const std::string& name);

  /// Throws EncodeError, ConfigError (a token that the tokenizer has not).
  ChatTokens encode(const Conversation& conversation) const;
  /// A conversation up to where the assistant's next answer begins.
  std::vector<int32_t> encode_question(const Conversation& conversation) const;
  /// The tokens with which the template ends an answer.
  std::vector<int32_t> answer_ends() const;
  const JsonTokenizer& tokenizer() const { return tokenizer_; }
  const std::string& template_name() const { return name_; }

 private:
  ChatTokens encode(std::vector<Segment> segments) const;
  void add_run(const std::vector<Segment>& run, ChatTokens& out) const;
  bool add_whole(const std::vector<Segment>& run, bool first, ChatTokens& out) const;

  JsonTokenizer tokenizer_;
  std::string name_;
  TemplateTokens tokens_;
  std::unordered_set<int32_t> as_text_;
};

}  // namespace tessera
