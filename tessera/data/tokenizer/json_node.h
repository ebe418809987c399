#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// A value of a JSON file with the place where it stands: every function throws ConfigError
/// "FILE: pre_tokenizer.pretokenizers[1].type: why".
class JsonNode {
 public:
  JsonNode(const nlohmann::json& value, std::string file, std::string place)
      : value_(&value), file_(std::move(file)), place_(std::move(place)) {}

  const nlohmann::json& value() const { return *value_; }
  bool is_null() const { return value_->is_null(); }
  [[noreturn]] void refuse(const std::string& why) const;

  /// A member that must be there.
  JsonNode at(std::string_view name) const;
  /// A member, or nothing if it is absent or null.
  std::optional<JsonNode> find(std::string_view name) const;
  /// Elements of an array.
  std::vector<JsonNode> items() const;
  /// Refuses a member of another name.
  void only(std::initializer_list<std::string_view> names) const;

  std::string text() const;              // this is a string
  int64_t integer(int64_t least) const;  // this is an integer >= least
  bool flag() const;                     // this is true or false
  std::string text(std::string_view name) const { return at(name).text(); }
  bool flag(std::string_view name, bool absent) const;
  /// A string of exactly one character; its code point.
  uint32_t character() const;

 private:
  const nlohmann::json* value_;
  std::string file_;
  std::string place_;
};

/// Reads a file of JSON. Throws ConfigError: it cannot be read, it is no JSON (with the byte).
nlohmann::json read_json_file(const std::string& path);

}  // namespace tessera
