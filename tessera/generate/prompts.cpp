#include "tessera/generate/prompts.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/utf8.h"

namespace tessera {

namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

std::string text_at(const Json& object, const char* key, const std::string& place) {
  if (!object.contains(key)) return "";
  if (!object.at(key).is_string()) throw ConfigError(place + ": \"" + key + "\" must be a text");
  return object.at(key).get<std::string>();
}

std::vector<Message> messages_at(const Json& object, const std::string& place) {
  std::vector<Message> messages;
  const Json& list = object.at("messages");
  if (!list.is_array()) throw ConfigError(place + ": \"messages\" must be a list");
  for (const Json& item : list) {
    if (!item.is_object()) throw ConfigError(place + ": a message must be an object");
    Message message{text_at(item, "role", place), text_at(item, "content", place), ""};
    if (message.role != "system" && message.role != "user" && message.role != "assistant") {
      throw ConfigError(place + ": the role of a message must be system, user or assistant");
    }
    messages.push_back(std::move(message));
  }
  if (messages.empty()) throw ConfigError(place + ": \"messages\" is empty");
  return messages;
}

Prompt prompt_of_line(const std::string& line, const std::string& place) {
  const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) throw ConfigError(place + ": no JSON object");
  if (object.contains("messages")) return {"", messages_at(object, place), std::nullopt};
  if (object.contains("instruction")) {
    return prompt_of({text_at(object, "instruction", place), text_at(object, "input", place)});
  }
  for (const char* key : {"prompt", "text"}) {
    if (object.contains(key)) return {text_at(object, key, place), {}, std::nullopt};
  }
  throw ConfigError(place + ": needs \"prompt\", \"messages\", \"instruction\" or \"text\"");
}

bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t\r") == std::string::npos;
}

}  // namespace

std::vector<Prompt> read_prompts(const std::string& path) {
  std::ifstream file(path);
  if (!file || fs::is_directory(path)) throw ConfigError(path + ": cannot be read");
  const bool is_json = fs::path(path).extension() == ".jsonl";
  std::vector<Prompt> prompts;
  int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (is_blank(line)) continue;
    const std::string place = path + ":" + std::to_string(number);
    if (first_invalid_utf8(line) != line.size()) throw ConfigError(place + ": is no UTF-8");
    if (line.ends_with('\r')) line.pop_back();
    prompts.push_back(is_json ? prompt_of_line(line, place) : Prompt{line, {}, std::nullopt});
  }
  if (prompts.empty()) throw ConfigError(path + ": holds no prompt");
  return prompts;
}

Prompt prompt_of(const PromptRecord& record) {
  std::string text = record.instruction;
  if (!record.input.empty()) text += (text.empty() ? "" : "\n") + record.input;
  return {std::move(text), {}, record};
}

std::vector<Prompt> prompts_of(const InferenceConfig& inference) {
  const std::string ending = fs::path(inference.output).extension();
  if (ending != ".jsonl" && ending != ".json" && ending != ".txt" && !ending.empty()) {
    throw ConfigError("inference.output = " + inference.output +
                      ": must end in .jsonl, .json, .txt or nothing");
  }
  std::vector<Prompt> prompts;
  for (const PromptRecord& record : inference.input_data) {
    std::error_code error;
    const bool is_file = record.input.empty() && fs::is_regular_file(record.instruction, error);
    if (!is_file) {
      prompts.push_back(prompt_of(record));
      continue;
    }
    for (Prompt& prompt : read_prompts(record.instruction)) {
      if (!prompt.record) prompt.record = PromptRecord{prompt.text, ""};
      prompts.push_back(std::move(prompt));
    }
  }
  if (prompts.empty()) throw ConfigError("inference.input_data: is needed: what is asked");
  return prompts;
}

PromptEncoder::PromptEncoder(const std::string& tokenizer, const std::optional<std::string>& chat) {
  if (chat) {
    chat_.emplace(tokenizer, *chat);
  } else {
    plain_ = make_tokenizer(tokenizer);
  }
}

std::vector<int32_t> PromptEncoder::encode(const Prompt& prompt) const {
  if (chat_) {
    Conversation conversation;
    conversation.messages = prompt.messages;
    if (conversation.messages.empty()) conversation.messages = {{"user", prompt.text, ""}};
    return chat_->encode_question(conversation);
  }
  if (!prompt.messages.empty()) {
    throw ConfigError("a prompt with messages needs a chat template: --chat NAME");
  }
  std::vector<int32_t> ids, after;
  plain_->around(ids, after);
  plain_->encode(prompt.text, ids);
  ids.insert(ids.end(), after.begin(), after.end());
  return ids;
}

std::vector<int32_t> PromptEncoder::stop_tokens() const {
  std::vector<int32_t> ids;
  if (chat_) ids = chat_->answer_ends();
  if (const auto end = tokenizer().eod()) ids.push_back(*end);
  return ids;
}

std::string tokenizer_in(const std::string& folder) {
  if (fs::is_regular_file(fs::path(folder) / "tokenizer.json")) return folder;
  const fs::path model = fs::path(folder) / "tokenizer.model";
  if (fs::is_regular_file(model)) return "sentencepiece:" + model.string();
  throw ConfigError(folder +
                    ": holds no tokenizer.json and no tokenizer.model; name one with "
                    "--tokenizer");
}

std::vector<int32_t> stop_tokens_in(const std::string& folder) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    std::ifstream file(fs::path(folder) / name);
    if (!file) continue;
    const Json root = Json::parse(file, nullptr, /*allow_exceptions=*/false);
    if (!root.is_object() || !root.contains("eos_token_id")) continue;
    const Json& ids = root.at("eos_token_id");
    std::vector<int32_t> found;
    for (const Json& id : ids.is_array() ? ids : Json::array({ids})) {
      if (id.is_number_integer()) found.push_back(id.get<int32_t>());
    }
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace tessera
