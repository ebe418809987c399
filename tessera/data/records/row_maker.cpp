#include "tessera/data/records/row_maker.h"

#include "tessera/base/error.h"

namespace tessera {

namespace {

constexpr std::string_view kSystem =
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives "
    "helpful, detailed, and polite answers to the user's questions.";
constexpr std::string_view kWithInput =
    "Below is an instruction that describes a task, paired with an input that provides further "
    "context. Write a response that appropriately completes the request.";
constexpr std::string_view kWithoutInput =
    "Below is an instruction that describes a task. Write a response that appropriately completes "
    "the request.";
constexpr int64_t kIgnored = -100;

std::string column(const nlohmann::json& columns, const char* name, bool needed) {
  const auto found = columns.find(name);
  if (found == columns.end() || found->is_null()) {
    if (needed) throw ConfigError(std::string("no column ") + name);
    return "";
  }
  if (!found->is_string()) {
    throw ConfigError(std::string("column ") + name + " must hold strings, not " +
                      found->type_name());
  }
  return found->get<std::string>();
}

std::vector<int64_t> id_column(const nlohmann::json& columns, const char* name) {
  const auto found = columns.find(name);
  if (found == columns.end()) throw ConfigError(std::string("no column ") + name);
  if (!found->is_array())
    throw ConfigError(std::string("column ") + name + " must hold lists of ids");
  std::vector<int64_t> ids;
  for (const auto& id : *found) {
    if (!id.is_number_integer()) throw ConfigError(std::string("column ") + name + " holds no id");
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

}  // namespace

RowMaker::RowMaker(std::string tokenizer_path, std::string chat_template, bool alpaca)
    : path_(std::move(tokenizer_path)),
      chat_template_(std::move(chat_template)),
      alpaca_(alpaca),
      tokenizer_(path_) {}

std::optional<ChatTokens> RowMaker::make(const Record& record) {
  try {
    if (alpaca_) return alpaca_row(record.columns);
    if (record.columns.contains("input_ids")) return given_row(record.columns);
    return conversation_row(record.columns);
  } catch (const ConfigError& error) {
    DocumentFault place = record.place;
    place.why = error.what();
    throw ConfigError(to_string(place));
  }
}

ChatTokens RowMaker::alpaca_row(const nlohmann::json& columns) const {
  const std::string instruction = column(columns, "instruction", true);
  const std::string input = column(columns, "input", false);
  std::string prompt(input.empty() ? kWithoutInput : kWithInput);
  prompt += "\n\n### Instruction:\n" + instruction;
  if (!input.empty()) prompt += "\n\n### Input:\n" + input;
  prompt += "\n\n### Response:";
  const std::string pieces[] = {std::string(kSystem) + " ", "USER: " + prompt + " ",
                                "ASSISTANT: " + column(columns, "output", false) + "</s>"};
  std::vector<int32_t> before, after;
  tokenizer_.around(before, after);
  ChatTokens row;
  for (int i = 0; i < 3; ++i) {  // each piece is a text of its own
    row.ids.insert(row.ids.end(), before.begin(), before.end());
    tokenizer_.encode(pieces[i], row.ids);
    row.ids.insert(row.ids.end(), after.begin(), after.end());
    row.counts.resize(row.ids.size(), i == 2);
  }
  return row;
}

ChatTokens RowMaker::given_row(const nlohmann::json& columns) const {
  const std::vector<int64_t> ids = id_column(columns, "input_ids");
  const std::vector<int64_t> labels =
      columns.contains("labels") ? id_column(columns, "labels") : ids;
  if (labels.size() != ids.size()) throw ConfigError("labels are not as many as input_ids");
  ChatTokens row;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] > INT32_MAX) throw ConfigError(detail::concat("id ", ids[i]));
    if (labels[i] != ids[i] && labels[i] != kIgnored) {
      throw ConfigError(detail::concat("labels[", i, "] is ", labels[i],
                                       ": must be input_ids at the same place, or -100 (they are "
                                       "shifted when they are read)"));
    }
    row.ids.push_back(static_cast<int32_t>(ids[i]));
    row.counts.push_back(labels[i] != kIgnored);
  }
  return row;
}

std::optional<ChatTokens> RowMaker::conversation_row(const nlohmann::json& columns) {
  Conversation conversation;
  if (const auto why = conversation_of(columns, "text", conversation)) throw ConfigError(*why);
  if (!conversation.has_answer()) return std::nullopt;
  if (!chat_) chat_ = std::make_unique<const ChatEncoder>(path_, chat_template_);
  return chat_->encode(conversation);
}

}  // namespace tessera
