#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "tessera/base/utf8.h"
#include "tessera/config/yaml/disguised.h"
#include "tessera/config/yaml/value.h"
#include "tessera/config/yaml/yaml_documents.h"

namespace tessera {
namespace {

// Far above any real file; stops documents whose aliases multiply.
constexpr int kMaxNodes = 200'000;
constexpr int kMaxDepth = 100;

class Converter {
 public:
  Converter(const std::string& text, std::string name, bool with_lines, std::vector<Issue>& issues)
      : text_(text), name_(std::move(name)), with_lines_(with_lines), issues_(issues) {}

  Value convert(const YAML::Node& node, const std::string& path, int depth) {
    Value value;
    value.source = source_of(node);
    if (++nodes_ > kMaxNodes || depth > kMaxDepth) {
      if (!overflowed_) report(value.source, path, "", "the document is too deep or too large");
      overflowed_ = true;
      return value;
    }
    if (!is_known(node.Tag())) {
      report(value.source, path, node.Tag(), "is no tag that is known here");
      return value;
    }
    switch (node.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null: break;
      case YAML::NodeType::Scalar:
        value.text = node.Scalar();
        value.quoted = node.Tag() == "!" || node.Tag() == "tag:yaml.org,2002:str";
        if (!value.quoted && begins_disguised(value.text)) {
          report(value.source, path, value.text,
                 "begins with a character that only looks like one of YAML; put a text that shall "
                 "begin so between plain quotes");
          if (with_lines_) hint_at_disguised(issues_.back(), text_);
        }
        if (is_open_quote(node.Mark())) {
          report(value.source, path, value.text, "begins with a quote that is not closed");
        }
        break;
      case YAML::NodeType::Sequence:
        value.kind = Value::Kind::kSequence;
        for (const YAML::Node& item : node) {
          value.items.push_back(
              convert(item, path + "[" + std::to_string(value.items.size()) + "]", depth + 1));
          if (overflowed_) break;
        }
        break;
      case YAML::NodeType::Map:
        value.kind = Value::Kind::kMap;
        convert_map(node, path, depth, value);
        break;
    }
    return value;
  }

 private:
  static bool is_known(const std::string& tag) {
    const std::string core = "tag:yaml.org,2002:";
    if (!tag.starts_with(core)) return tag.empty() || tag == "?" || tag == "!";
    for (const char* type : {"str", "int", "float", "bool", "null", "map", "seq"}) {
      if (tag == core + type) return true;
    }
    return false;
  }

  // The parser takes the end of the file for the end of a quoted text.
  bool is_open_quote(const YAML::Mark& mark) const {
    if (mark.is_null() || static_cast<size_t>(mark.pos) >= text_.size()) return false;
    const auto start = static_cast<size_t>(mark.pos);
    const char quote = text_[start];
    if (quote != '"' && quote != '\'') return false;
    size_t end = text_.find(quote, start + 1);
    if (quote == '"') {
      const auto is_escaped = [&] {
        return (end - 1 - text_.find_last_not_of('\\', end - 1)) % 2 == 1;
      };
      while (end != std::string::npos && is_escaped()) end = text_.find(quote, end + 1);
    } else {
      while (end != std::string::npos && text_.compare(end, 2, "''") == 0) {
        end = text_.find(quote, end + 2);
      }
    }
    return end == std::string::npos;
  }

  Source source_of(const YAML::Node& node) const {
    const YAML::Mark mark = node.Mark();
    return {name_, with_lines_ && !mark.is_null() ? mark.line + 1 : 0};
  }

  void report(Source source, std::string field, std::string value, std::string rule) {
    Issue issue;
    issue.source = std::move(source);
    issue.field = std::move(field);
    issue.value = std::move(value);
    issue.rule = std::move(rule);
    issues_.push_back(std::move(issue));
  }

  void convert_map(const YAML::Node& node, const std::string& path, int depth, Value& out) {
    std::vector<Value> merged;
    for (const auto& pair : node) {
      if (overflowed_) return;
      if (!pair.first.IsScalar()) {
        report(source_of(pair.first), path, "", "a key must be a word");
        continue;
      }
      const std::string key = pair.first.Scalar();
      const std::string child = path.empty() ? key : path + "." + key;
      Value value = convert(pair.second, child, depth + 1);
      const Source source = source_of(pair.first);
      // A null node has no place of its own.
      if (value.is_null()) value.source = source;
      if (key == "<<" && pair.first.Tag() != "!") {
        merged.push_back(std::move(value));
        continue;
      }
      if (const Value* earlier = out.find(key)) {
        const std::string where =
            with_lines_ ? " (also on line " + std::to_string(earlier->source.line) + ")" : "";
        report(source, child, display(value), "duplicate key" + where);
        continue;
      }
      out.entries.push_back({key, source, std::move(value)});
    }
    for (const Value& value : merged) merge(value, path, out);
  }

  // What the map itself says wins over what it merges in; of several, the first.
  void merge(const Value& value, const std::string& path, Value& out) {
    if (value.kind == Value::Kind::kSequence) {
      for (const Value& item : value.items) merge(item, path, out);
    } else if (value.kind == Value::Kind::kMap) {
      for (const Value::Entry& entry : value.entries) {
        if (!out.find(entry.key)) out.entries.push_back(entry);
      }
    } else {
      report(value.source, path, display(value), "a merge key (<<) needs a dict");
    }
  }

  const std::string& text_;
  std::string name_;
  bool with_lines_;
  std::vector<Issue>& issues_;
  int nodes_ = 0;
  bool overflowed_ = false;
};

// The library does not name the sign at which it ends.
bool is_comma(const std::string& text, const YAML::Mark& mark) {
  return !mark.is_null() && static_cast<size_t>(mark.pos) < text.size() &&
         text[static_cast<size_t>(mark.pos)] == ',';
}

// YAML is UTF-8, or UTF-16 or UTF-32 behind its mark, of which the library makes UTF-8.
std::optional<Issue> wrong_encoding(const std::string& text, const std::string& name,
                                    bool with_lines) {
  const size_t at = first_invalid_utf8(text);
  const bool is_wide = text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF") ||
                       text.starts_with(std::string_view("\0\0\xFE\xFF", 4));
  if (at == text.size() || is_wide) return std::nullopt;
  Issue issue;
  issue.source = {name, 0};
  if (with_lines) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(at);
    issue.source.line = static_cast<int>(std::count(text.begin(), end, '\n')) + 1;
  }
  char byte[8];
  std::snprintf(byte, sizeof(byte), "0x%02X", static_cast<unsigned char>(text[at]));
  issue.rule = std::string("not valid YAML: the byte ") + byte +
               " is no UTF-8; a text in Latin-1 or the like must be converted";
  return issue;
}

Value parse(const std::string& text, const std::string& name, bool with_lines,
            std::vector<Issue>& issues) {
  if (auto issue = wrong_encoding(text, name, with_lines)) {
    issues.push_back(std::move(*issue));
    Value empty;
    empty.source = {name, 0};
    return empty;
  }
  try {
    const int documents = count_documents(text);
    if (documents > 1) {
      Issue issue;
      issue.source = {name, 0};
      issue.rule = "holds several documents (---); one is read";
      issues.push_back(issue);
    }
    if (documents == 0) {
      Value empty;
      empty.source = {name, 0};
      return empty;
    }
    return Converter(text, name, with_lines, issues).convert(YAML::Load(text), "", 0);
  } catch (const YAML::Exception& error) {
    Issue issue;
    issue.source = {name, with_lines && !error.mark.is_null() ? error.mark.line + 1 : 0};
    if (dynamic_cast<const YAML::DeepRecursion*>(&error) != nullptr) {
      issue.rule = "the document is too deep or too large";
    } else {
      issue.rule = "not valid YAML: " + error.msg;
      if (is_comma(text, error.mark)) issue.rule += "; a ',' stands outside of brackets";
      hint_at_disguised(issue, text);
    }
    issues.push_back(issue);
    Value empty;
    empty.source = {name, 0};
    return empty;
  }
}

}  // namespace

Value parse_document(const std::string& text, const std::string& name, std::vector<Issue>& issues) {
  return parse(text, name, true, issues);
}

Value parse_inline(const std::string& text, const std::string& source_name,
                   std::vector<Issue>& issues) {
  return parse(text, source_name, false, issues);
}

}  // namespace tessera
