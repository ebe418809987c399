#pragma once

// What a model is asked, as files and flags say it, and as its tokenizer writes it. No torch here.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/data/chat/chat_encoder.h"
#include "tessera/data/tokenizer.h"

namespace tessera {

/// One thing that is asked: a text, or the messages of a conversation.
struct Prompt {
  std::string text;
  std::vector<Message> messages;       // if there are any, they count and not the text
  std::optional<PromptRecord> record;  // of inference.input_data, for its output
};

/// The prompts of a file: .jsonl holds an object a line ({"prompt"}, {"messages"},
/// {"instruction", "input"} or {"text"}), any other file a text a line; blank lines count for
/// nothing. Throws ConfigError that names file and line.
std::vector<Prompt> read_prompts(const std::string& path);

/// The prompts of a file's section, those of the file that its text names included. Throws
/// ConfigError when there are none, or where its output has an ending that is none of them.
std::vector<Prompt> prompts_of(const InferenceConfig& inference);

/// The instruction, and the input below it if there is one.
Prompt prompt_of(const PromptRecord& record);

/// Writes prompts as ids of a model. Any thread may use it.
class PromptEncoder {
 public:
  /// `tokenizer`: see make_tokenizer. `chat`: a template's name, or empty for the one that the
  /// tokenizer's folder holds; nothing: texts are encoded as they are, messages refused.
  PromptEncoder(const std::string& tokenizer, const std::optional<std::string>& chat);

  /// Throws ConfigError, EncodeError.
  std::vector<int32_t> encode(const Prompt& prompt) const;
  const Tokenizer& tokenizer() const {
    return chat_ ? static_cast<const Tokenizer&>(chat_->tokenizer()) : *plain_;
  }
  /// Tokens with which an answer ends, as tokenizer and template say.
  std::vector<int32_t> stop_tokens() const;

 private:
  std::unique_ptr<Tokenizer> plain_;
  std::optional<ChatEncoder> chat_;
};

/// The tokenizer that lies in a folder with a model: its tokenizer.json, or its SentencePiece
/// model. Throws ConfigError when there is none.
std::string tokenizer_in(const std::string& folder);

/// eos_token_id of generation_config.json, else of config.json, in a folder; none if neither says.
std::vector<int32_t> stop_tokens_in(const std::string& folder);

}  // namespace tessera
