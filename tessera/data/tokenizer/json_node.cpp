#include "tessera/data/tokenizer/json_node.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "tessera/base/error.h"
#include "tessera/data/tokenizer/unicode.h"

namespace tessera {

void JsonNode::refuse(const std::string& why) const {
  throw ConfigError(file_ + ": " + (place_.empty() ? "" : place_ + ": ") + why);
}

JsonNode JsonNode::at(std::string_view name) const {
  if (!value_->is_object()) refuse("must be an object");
  const auto found = value_->find(std::string(name));
  if (found == value_->end()) refuse("needs " + std::string(name));
  return {*found, file_, (place_.empty() ? "" : place_ + ".") + std::string(name)};
}

std::optional<JsonNode> JsonNode::find(std::string_view name) const {
  if (!value_->is_object()) refuse("must be an object");
  const auto found = value_->find(std::string(name));
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return at(name);
}

std::vector<JsonNode> JsonNode::items() const {
  if (!value_->is_array()) refuse("must be a list");
  std::vector<JsonNode> nodes;
  for (const auto& item : *value_) {
    nodes.emplace_back(item, file_, place_ + "[" + std::to_string(nodes.size()) + "]");
  }
  return nodes;
}

void JsonNode::only(std::initializer_list<std::string_view> names) const {
  if (!value_->is_object()) refuse("must be an object");
  for (const auto& [name, member] : value_->items()) {
    if (std::ranges::find(names, name) == names.end()) refuse(name + " is not known");
  }
}

std::string JsonNode::text() const {
  if (!value_->is_string()) refuse("must be a string");
  return value_->get<std::string>();
}

int64_t JsonNode::integer(int64_t least) const {
  if (!value_->is_number_integer() ||
      (value_->is_number_unsigned() && value_->get<uint64_t>() > (uint64_t{1} << 62)) ||
      value_->get<int64_t>() < least) {
    refuse("must be an integer, at least " + std::to_string(least));
  }
  return value_->get<int64_t>();
}

bool JsonNode::flag() const {
  if (!value_->is_boolean()) refuse("must be true or false");
  return value_->get<bool>();
}

bool JsonNode::flag(std::string_view name, bool absent) const {
  const auto member = find(name);
  return member ? member->flag() : absent;
}

uint32_t JsonNode::character() const {
  const std::string string = text();
  size_t at = 0;
  const uint32_t c = string.empty() ? 0 : next_code_point(string, at);
  if (string.empty() || at != string.size()) refuse("must be one character");
  return c;
}

nlohmann::json read_json_file(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw ConfigError(path + ": cannot be read: " + std::strerror(errno));
  try {
    return nlohmann::json::parse(file);
  } catch (const nlohmann::json::parse_error& error) {
    throw ConfigError(detail::concat(path, ": no JSON: ", error.what()));
  } catch (const std::ios_base::failure& error) {
    throw ConfigError(path + ": cannot be read: " + error.what());
  }
}

}  // namespace tessera
