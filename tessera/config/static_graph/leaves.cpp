#include "tessera/config/static_graph/leaves.h"

#include "tessera/base/error.h"
#include "tessera/config/fields/field_type.h"

namespace tessera::static_graph {
namespace {

[[noreturn]] void wrong_type(std::string_view path, const Value& value, const char* expected) {
  throw ConfigError(line_of(value) + ": " + std::string(path) + " = " + display(value) +
                    " must be " + expected);
}

void collect(const Value& value, const std::string& path,
             const std::set<std::string, std::less<>>& taken, std::vector<Leaves::Leaf>& out) {
  if (taken.contains(path)) return;
  if (value.kind == Value::Kind::kMap) {
    for (const Value::Entry& entry : value.entries) {
      collect(entry.value, path.empty() ? entry.key : path + "." + entry.key, taken, out);
    }
  } else if (!value.is_null()) {
    out.push_back({path, &value});
  }
}

}  // namespace

const Value* Leaves::peek(std::string_view path) const {
  const Value* at = &root_;
  while (!path.empty()) {
    if (at->kind != Value::Kind::kMap) return nullptr;
    const size_t dot = path.find('.');
    at = at->find(path.substr(0, dot));
    if (at == nullptr) return nullptr;
    path.remove_prefix(dot == std::string_view::npos ? path.size() : dot + 1);
  }
  return at->is_null() ? nullptr : at;
}

const Value* Leaves::take(std::string_view path) {
  taken_.emplace(path);
  return peek(path);
}

int64_t Leaves::take_int(std::string_view path, int64_t otherwise) {
  const Value* value = take(path);
  if (value == nullptr) return otherwise;
  const auto number = value->kind == Value::Kind::kScalar ? parse_int(value->text) : std::nullopt;
  if (!number) wrong_type(path, *value, "an int");
  return *number;
}

bool Leaves::take_bool(std::string_view path, bool otherwise) {
  const Value* value = take(path);
  if (value == nullptr) return otherwise;
  const auto flag = value->kind == Value::Kind::kScalar ? parse_bool(value->text) : std::nullopt;
  if (!flag) wrong_type(path, *value, "true or false");
  return *flag;
}

std::string Leaves::take_text(std::string_view path) {
  const Value* value = take(path);
  return value != nullptr && value->kind == Value::Kind::kScalar ? value->text : "";
}

std::vector<Leaves::Leaf> Leaves::left() const {
  std::vector<Leaf> leaves;
  collect(root_, "", taken_, leaves);
  return leaves;
}

std::string flow(const Value& value) {
  if (value.kind == Value::Kind::kScalar) {
    if (value.is_null()) return "null";
    const bool text = value.quoted || value.scalar_type() == ScalarType::kString;
    return text ? write_string(value.text) : value.text;
  }
  std::string out;
  if (value.kind == Value::Kind::kSequence) {
    for (const Value& item : value.items) out += (out.empty() ? "" : ", ") + flow(item);
    return "[" + out + "]";
  }
  for (const Value::Entry& entry : value.entries) {
    out += (out.empty() ? "" : ", ") + write_string(entry.key) + ": " + flow(entry.value);
  }
  return "{" + out + "}";
}

std::string line_of(const Value& value) { return "line " + std::to_string(value.source.line); }

}  // namespace tessera::static_graph
