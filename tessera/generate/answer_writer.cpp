#include "tessera/generate/answer_writer.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"

namespace tessera {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

void add_record(Json& json, const PromptRecord& record) {
  json["instruction"] = record.instruction;
  if (!record.input.empty()) json["input"] = record.input;
}

// The reference's form: prompt and answer as one list of ids.
Json prediction(const PromptRecord& record, const WrittenAnswer& answer) {
  Json json{{"sample_idx", answer.index}};
  if (!answer.error.empty()) {
    json["error"] = answer.error;
  } else {
    std::vector<int32_t> ids = answer.prompt_ids;
    ids.insert(ids.end(), answer.ids.begin(), answer.ids.end());
    json["generated_ids"] = ids;
    json["generated_text"] = answer.text;
  }
  add_record(json, record);
  return json;
}

Json to_json(const Prompt& prompt, const WrittenAnswer& answer) {
  if (prompt.record) return prediction(*prompt.record, answer);
  Json json{{"index", answer.index}};
  if (prompt.messages.empty()) {
    json["prompt"] = prompt.text;
  } else {
    json["messages"] = Json::array();
    for (const Message& message : prompt.messages) {
      json["messages"].push_back({{"role", message.role}, {"content", message.content}});
    }
  }
  if (!answer.error.empty()) {
    json["error"] = answer.error;
    return json;
  }
  json["text"] = answer.text;
  json["ids"] = answer.ids;
  json["end"] = answer.end;
  return json;
}

}  // namespace

std::string answer_line(const Prompt& prompt, const WrittenAnswer& answer) {
  return dump(to_json(prompt, answer), -1) + "\n";
}

void write_answers(const std::string& path, const std::vector<Prompt>& prompts,
                   const std::vector<WrittenAnswer>& answers) {
  const std::string ending = fs::path(path).extension();
  std::string text;
  if (ending == ".json") {
    Json list = Json::array();
    for (const WrittenAnswer& a : answers) list.push_back(to_json(prompts[a.index], a));
    text = dump(list, 2) + "\n";
  } else {
    for (const WrittenAnswer& a : answers) {
      const bool plain = ending != ".jsonl" && a.error.empty();
      text += plain ? a.text + "\n" : answer_line(prompts[a.index], a);
    }
  }
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw ConfigError(path + ": cannot be written");
  ::chmod(path.c_str(), 0640);
}

}  // namespace tessera
