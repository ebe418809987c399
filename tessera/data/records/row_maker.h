#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tessera/data/chat/chat_encoder.h"
#include "tessera/data/records/record_source.h"

namespace tessera {

/// Ids and mask of records: the columns input_ids and labels (an id, or -100 where it does not
/// count), conversations (see read_conversation), or instructions as AlpacaInstructDataHandler of
/// MindFormers writes them.
class RowMaker {
 public:
  /// `alpaca`: every record is instruction, input, output in that handler's form. Throws
  /// ConfigError as JsonTokenizer and ChatEncoder do; the template is looked for at the first
  /// conversation.
  RowMaker(std::string tokenizer_path, std::string chat_template, bool alpaca);

  /// Nothing if the record has no answer. Throws ConfigError that names the record's place.
  std::optional<ChatTokens> make(const Record& record);
  const JsonTokenizer& tokenizer() const { return tokenizer_; }

 private:
  ChatTokens alpaca_row(const nlohmann::json& columns) const;
  ChatTokens given_row(const nlohmann::json& columns) const;
  std::optional<ChatTokens> conversation_row(const nlohmann::json& columns);

  std::string path_;
  std::string chat_template_;
  bool alpaca_;
  JsonTokenizer tokenizer_;
  std::unique_ptr<const ChatEncoder> chat_;  // made when it is needed
};

}  // namespace tessera
