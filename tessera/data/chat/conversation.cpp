#include "tessera/data/chat/conversation.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tessera {

namespace {

using Json = nlohmann::json;

// What is wrong, thrown inside this file only.
struct Wrong {
  std::string why;
};

std::string text_of(const Json& object, const char* name, const std::string& place,
                    bool may_be_absent = false) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) {
    if (may_be_absent) return "";
    throw Wrong{place + " has no " + name};
  }
  if (!found->is_string()) {
    throw Wrong{place + ": " + name + " must be a string, not " + found->type_name()};
  }
  return found->get<std::string>();
}

void add_messages(const Json& list, const std::string& name, std::vector<Message>& messages) {
  if (!list.is_array()) throw Wrong{name + " must be a list of messages"};
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string place = name + "[" + std::to_string(i) + "]";
    if (!list[i].is_object()) throw Wrong{place + " must be an object with role and content"};
    Message message{text_of(list[i], "role", place), text_of(list[i], "content", place), ""};
    if (message.role != "system" && message.role != "user" && message.role != "assistant") {
      throw Wrong{place + ": role \"" + message.role + "\" must be system, user or assistant"};
    }
    if (message.role == "system" && !messages.empty()) {
      throw Wrong{place + ": a system message must be the first"};
    }
    messages.push_back(std::move(message));
  }
  if (list.empty()) throw Wrong{name + " is empty"};
}

void add_side(const Json& record, const char* name, const char* role, Conversation& conversation) {
  const auto found = record.find(name);
  if (found == record.end() || found->is_null()) throw Wrong{std::string("no field ") + name};
  if (found->is_string()) {
    conversation.messages.push_back({role, found->get<std::string>(), ""});
  } else {
    add_messages(*found, name, conversation.messages);
  }
}

void read(const Json& record, const std::string& text_key, Conversation& conversation) {
  if (!record.is_object()) throw Wrong{"must be a JSON object"};
  if (record.contains("messages")) {
    add_messages(record["messages"], "messages", conversation.messages);
  } else if (record.contains("prompt") || record.contains("completion")) {
    add_side(record, "prompt", "user", conversation);
    add_side(record, "completion", "assistant", conversation);
  } else if (record.contains("instruction")) {
    conversation.messages.push_back({"user", text_of(record, "instruction", "the record"),
                                     text_of(record, "input", "the record", true)});
    conversation.messages.push_back({"assistant", text_of(record, "output", "the record"), ""});
  } else if (record.contains(text_key)) {
    conversation.plain = text_of(record, text_key.c_str(), "the record");
  } else {
    throw Wrong{"none of messages, prompt, instruction, " + text_key};
  }
}

}  // namespace

bool Conversation::has_answer() const {
  return plain || std::ranges::any_of(
                      messages, [](const Message& message) { return message.role == "assistant"; });
}

std::optional<std::string> conversation_of(const Json& record, const std::string& text_key,
                                           Conversation& conversation) {
  conversation = {};
  try {
    read(record, text_key, conversation);
  } catch (const Wrong& wrong) {
    return wrong.why;
  }
  return std::nullopt;
}

std::optional<TextFault> read_conversation(std::string_view json, const std::string& text_key,
                                           Conversation& conversation) {
  try {
    const auto why = conversation_of(Json::parse(json), text_key, conversation);
    if (why) return TextFault{*why, 0};
  } catch (const Json::parse_error& error) {
    return TextFault{"no JSON", error.byte > 0 ? error.byte - 1 : 0};
  } catch (const Json::exception& error) {
    return TextFault{std::string("no JSON that can be read: ") + error.what(), 0};
  }
  return std::nullopt;
}

bool is_conversation(std::string_view json, const std::string& text_key) {
  Conversation conversation;
  const Json record = Json::parse(json, nullptr, false);
  if (!record.is_object() || record.contains(text_key)) return false;
  return record.contains("messages") || record.contains("prompt") ||
         record.contains("completion") || record.contains("instruction");
}

}  // namespace tessera
