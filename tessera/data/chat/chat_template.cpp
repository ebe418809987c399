#include "tessera/data/chat/chat_template.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tessera/base/error.h"
#include "tessera/data/tokenizer/json_node.h"
#include "tessera/data/tokenizer/unicode.h"

namespace tessera {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kQwenSystem =
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";
constexpr std::string_view kAlpacaSystem =
    "Below is an instruction that describes a task. Write a response that appropriately completes "
    "the request.";

// Puts segments together. Nothing is ever looked for in a text.
class Rendering {
 public:
  Rendering(std::string_view name, const TemplateTokens& tokens) : name_(name), tokens_(tokens) {}

  void text(std::string_view text, bool counts = false) {
    if (!text.empty()) segments_.push_back({std::string(text), false, counts});
  }
  void token(std::string_view token, bool counts = false) {
    if (!has(token)) {
      throw ConfigError("chat template " + std::string(name_) + ": the tokenizer has no token " +
                        std::string(token));
    }
    segments_.push_back({std::string(token), true, counts});
  }
  void token_or_text(std::string_view mark) { has(mark) ? token(mark) : text(mark); }
  void end_of_text(bool counts) {
    if (tokens_.end_of_text.empty()) {
      throw ConfigError("chat template " + std::string(name_) +
                        ": the tokenizer names no end of text (eos_token of its "
                        "tokenizer_config.json)");
    }
    token(tokens_.end_of_text, counts);
  }
  bool has(std::string_view token) const {
    return token == tokens_.end_of_text ||
           std::ranges::find(tokens_.added, token) != tokens_.added.end();
  }
  std::vector<Segment> take() { return std::move(segments_); }

 private:
  std::string_view name_;
  const TemplateTokens& tokens_;
  std::vector<Segment> segments_;
};

// What the user says: an Alpaca record's input comes below its instruction.
std::string content_of(const Message& message) {
  return message.input.empty() ? message.content : message.content + "\n" + message.input;
}

std::string trimmed(const std::string& text) { return std::string(stripped(text, true, true)); }

// Without the system message, which goes in front of the first of the user's.
std::vector<Message> with_system_in_user(const std::vector<Message>& messages) {
  std::vector<Message> rest = messages;
  if (rest.empty() || rest.front().role != "system") return rest;
  const std::string system = rest.front().content;
  rest.erase(rest.begin());
  if (!rest.empty() && rest.front().role == "user") {
    rest.front().content = system + "\n\n" + rest.front().content;
  }
  return rest;
}

void chatml(const std::vector<Message>& messages, Rendering& out) {
  for (const Message& message : messages) {
    const bool counts = message.role == "assistant";
    out.token("<|im_start|>");
    out.text(message.role + "\n");
    out.text(content_of(message), counts);
    out.token("<|im_end|>", counts);
    out.text("\n");
  }
}

void qwen(const std::vector<Message>& messages, Rendering& out) {
  if (messages.empty() || messages.front().role != "system") {
    chatml({{"system", std::string(kQwenSystem), ""}}, out);
  }
  chatml(messages, out);
}

void llama3(const std::vector<Message>& messages, Rendering& out) {
  out.token("<|begin_of_text|>");
  for (const Message& message : messages) {
    const bool counts = message.role == "assistant";
    out.token("<|start_header_id|>");
    out.text(message.role);
    out.token("<|end_header_id|>");
    out.text("\n\n");
    out.text(trimmed(content_of(message)), counts);
    out.token("<|eot_id|>", counts);
  }
}

void mistral(const std::vector<Message>& messages, Rendering& out) {
  out.token("<s>");
  for (const Message& message : with_system_in_user(messages)) {
    if (message.role == "assistant") {
      out.text(" " + trimmed(message.content), true);
      out.end_of_text(true);
    } else {
      out.token_or_text("[INST]");
      out.text(" " + content_of(message));
      out.token_or_text("[/INST]");
    }
  }
}

void gemma(const std::vector<Message>& messages, Rendering& out) {
  out.token("<bos>");
  for (const Message& message : with_system_in_user(messages)) {
    const bool counts = message.role == "assistant";
    out.token("<start_of_turn>");
    out.text(counts ? "model\n" : message.role + "\n");
    out.text(trimmed(content_of(message)), counts);
    out.token("<end_of_turn>", counts);
    out.text("\n");
  }
}

void deepseek(const std::vector<Message>& messages, Rendering& out) {
  out.token("<｜begin▁of▁sentence｜>");
  for (const Message& message : messages) {
    if (message.role == "system") {
      out.text(message.content);
    } else if (message.role == "user") {
      out.token("<｜User｜>");
      out.text(content_of(message));
    } else {
      out.token("<｜Assistant｜>");
      out.text(message.content, true);
      out.token("<｜end▁of▁sentence｜>", true);
    }
  }
}

void alpaca(const std::vector<Message>& messages, Rendering& out) {
  const bool has_system = !messages.empty() && messages.front().role == "system";
  out.text(has_system ? messages.front().content : kAlpacaSystem);
  for (const Message& message : messages) {
    if (message.role == "user") {
      out.text("\n\n### Instruction:\n" + message.content);
      if (!message.input.empty()) out.text("\n\n### Input:\n" + message.input);
    } else if (message.role == "assistant") {
      out.text("\n\n### Response:\n");
      out.text(message.content, true);
      out.end_of_text(true);
    }
  }
}

struct Template {
  std::string_view name;
  void (*render)(const std::vector<Message>&, Rendering&);
  std::vector<std::string_view> marks;  // all of them are in the jinja of this one
};

const std::vector<Template>& templates() {
  // What is more particular comes first.
  static const std::vector<Template> all = {
      {"qwen", qwen, {"<|im_start|>", "<|im_end|>", kQwenSystem}},
      {"chatml", chatml, {"<|im_start|>", "<|im_end|>"}},
      {"llama3", llama3, {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}},
      {"mistral", mistral, {"[INST]", "[/INST]"}},
      {"gemma", gemma, {"<start_of_turn>", "<end_of_turn>"}},
      {"deepseek", deepseek, {"<｜User｜>", "<｜Assistant｜>"}},
      {"alpaca", alpaca, {"### Instruction:", "### Response:"}},
  };
  return all;
}

const Template& find_template(std::string_view name) {
  const auto found = std::ranges::find(templates(), name, &Template::name);
  if (found == templates().end()) {
    throw ConfigError("chat template \"" + std::string(name) + "\": must be one of " +
                      chat_template_names());
  }
  return *found;
}

}  // namespace

std::string chat_template_names() {
  std::vector<std::string_view> names;
  for (const Template& one : templates()) names.push_back(one.name);
  std::ranges::sort(names);
  std::string list;
  for (const std::string_view name : names) list.append(list.empty() ? "" : ", ").append(name);
  return list;
}

std::vector<Segment> render_chat(std::string_view name, const Conversation& conversation,
                                 const TemplateTokens& tokens) {
  Rendering out(name, tokens);
  if (conversation.plain) {
    out.text(*conversation.plain, true);
    if (!tokens.end_of_text.empty()) out.end_of_text(true);
  } else {
    find_template(name).render(conversation.messages, out);
  }
  return out.take();
}

std::string recognise_chat_template(std::string_view jinja) {
  for (const Template& one : templates()) {
    const bool all = std::ranges::all_of(one.marks, [&](std::string_view mark) {
      return jinja.find(mark) != std::string_view::npos;
    });
    if (all) return std::string(one.name);
  }
  return "";
}

std::string chat_template_of_folder(const std::string& folder) {
  std::error_code error;
  const fs::path config = fs::path(folder) / "tokenizer_config.json";
  if (fs::is_regular_file(config, error)) {
    const nlohmann::json document = read_json_file(config.string());
    if (const auto node = JsonNode(document, config.string(), "").find("chat_template")) {
      if (!node->value().is_array()) return node->text();
      for (const JsonNode& named : node->items()) {  // several, by name
        if (named.text("name") == "default") return named.text("template");
      }
    }
  }
  std::ifstream file(fs::path(folder) / "chat_template.jinja");
  std::stringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

}  // namespace tessera
