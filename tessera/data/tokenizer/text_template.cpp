#include "tessera/data/tokenizer/text_template.h"

namespace tessera {

namespace {

std::vector<int32_t> ids_of(const JsonNode& node, const std::string& token) {
  std::vector<int32_t> ids;
  for (const JsonNode& id : node.at("special_tokens").at(token).at("ids").items()) {
    ids.push_back(static_cast<int32_t>(id.integer(0)));
  }
  return ids;
}

void add_template(const JsonNode& node, TextTemplate& text) {
  node.only({"type", "single", "pair", "special_tokens"});
  std::vector<int32_t> before, after;
  bool seen = false;
  for (const JsonNode& item : node.at("single").items()) {
    item.only({"SpecialToken", "Sequence"});
    if (const auto token = item.find("SpecialToken")) {
      const std::vector<int32_t> ids = ids_of(node, token->text("id"));
      std::vector<int32_t>& side = seen ? after : before;
      side.insert(side.end(), ids.begin(), ids.end());
    } else {
      const JsonNode sequence = item.at("Sequence");
      if (sequence.text("id") != "A" || seen) sequence.refuse("must be A, once");
      seen = true;
    }
  }
  if (!seen) node.at("single").refuse("has no place for the text");
  before.insert(before.end(), text.before.begin(), text.before.end());
  text.after.insert(text.after.end(), after.begin(), after.end());
  text.before = std::move(before);
}

void add(const JsonNode& node, TextTemplate& text) {
  const std::string type = node.text("type");
  if (type == "Sequence") {
    node.only({"type", "processors"});
    for (const JsonNode& step : node.at("processors").items()) add(step, text);
  } else if (type == "TemplateProcessing") {
    add_template(node, text);
  } else if (type == "ByteLevel") {
    node.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});  // moves no id
  } else {
    node.at("type").refuse("\"" + type +
                           "\" is not known: TemplateProcessing, ByteLevel, Sequence");
  }
}

}  // namespace

TextTemplate read_text_template(const JsonNode& node) {
  TextTemplate text;
  add(node, text);
  return text;
}

}  // namespace tessera
