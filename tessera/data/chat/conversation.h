#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/data/text/json_field.h"

namespace tessera {

/// One turn: role is system, user or assistant.
struct Message {
  std::string role;
  std::string content;
  std::string input;  // of an Alpaca record: what its instruction is about

  bool operator==(const Message&) const = default;
};

/// A record of instruction data. `plain`: only a text, of which every token counts.
struct Conversation {
  std::vector<Message> messages;
  std::optional<std::string> plain;

  bool has_answer() const;
};

/// Reads a JSON object: `messages` (role, content), `prompt` and `completion` (texts, or lists of
/// messages), `instruction`, `input` and `output` (Alpaca), or the text in field `text_key`. The
/// first of these that is there counts. Returns what is wrong, if anything.
std::optional<TextFault> read_conversation(std::string_view json, const std::string& text_key,
                                           Conversation& conversation);

/// The same of a record that is read already. Returns why it is none, if it is none.
std::optional<std::string> conversation_of(const nlohmann::json& record,
                                           const std::string& text_key, Conversation& conversation);

/// Whether a line of JSON is such a record and not only a text.
bool is_conversation(std::string_view json, const std::string& text_key);

}  // namespace tessera
