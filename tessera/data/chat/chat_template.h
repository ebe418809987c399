#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/data/chat/conversation.h"

namespace tessera {

/// A part of a conversation as a template puts it together.
struct Segment {
  std::string text;
  bool is_token = false;  // `text` names one token of the tokenizer
  bool counts = false;    // the assistant's: its tokens carry loss

  bool operator==(const Segment&) const = default;
};

/// "alpaca, chatml, …"
std::string chat_template_names();

/// What a template needs to know of the tokenizer.
struct TemplateTokens {
  std::string end_of_text;         // its eos_token; empty: none
  std::vector<std::string> added;  // contents of its added tokens
};

/// The segments of a conversation under template `name`; of a plain text, its text and the end of
/// text. Throws ConfigError for an unknown name and for a token that the tokenizer has not.
std::vector<Segment> render_chat(std::string_view name, const Conversation& conversation,
                                 const TemplateTokens& tokens);

/// The name of the template that a chat_template of transformers is one of, known by its marks;
/// empty: none of ours.
std::string recognise_chat_template(std::string_view jinja);

/// The template's text in `tokenizer_config.json` or `chat_template.jinja` of a tokenizer's folder;
/// empty: none. Throws ConfigError for a file that is no JSON.
std::string chat_template_of_folder(const std::string& folder);

}  // namespace tessera
