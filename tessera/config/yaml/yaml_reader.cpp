#include "tessera/config/yaml/yaml_reader.h"

#include <algorithm>
#include <cctype>

#include "tessera/config/expand_path.h"
#include "tessera/config/fields/field_rules.h"
#include "tessera/config/suggest.h"

namespace tessera {
namespace {

std::string join(std::string_view section, std::string_view name) {
  return section.empty() ? std::string(name) : std::string(section) + "." + std::string(name);
}

// Where a key belongs: its first name; the rotary base may also be written among the parameters of
// the rotary embedding.
std::string key_path(std::string_view section, std::string_view name) {
  if (section == "model.rope_scaling" && canonical_key("model", name) == "rope_theta") {
    return "model.rope_theta";
  }
  return join(section, canonical_key(section, name));
}

Issue issue_at(const Value& value, std::string field, std::string rule) {
  Issue issue;
  issue.source = value.source;
  issue.field = std::move(field);
  issue.value = display(value);
  issue.rule = std::move(rule);
  return issue;
}

// A section at the top that is there for its anchors: `_base: &base {…}`, `x-data: &data {…}`.
bool holds_anchors(const Value::Entry& entry) {
  return entry.key.starts_with('_') || entry.key.starts_with("x-") || entry.key.starts_with('.');
}

class Collector {
 public:
  explicit Collector(std::vector<Issue>& issues) : issues_(issues) {}

  void walk(std::string_view section, const Value& map) {
    for (const Value::Entry& entry : map.entries) visit(section, entry);
  }

  std::vector<Given> take() { return std::move(given_); }

 private:
  void visit(std::string_view section, const Value::Entry& entry) {
    const std::string path = key_path(section, entry.key);
    const std::string written = join(section, entry.key);
    if (const Field* field = find_field(path)) {
      record({field, written, &entry.value});
    } else if (is_section(path)) {
      if (entry.value.kind == Value::Kind::kMap) {
        walk(path, entry.value);
      } else if (!entry.value.is_null()) {
        issues_.push_back(issue_at(entry.value, written,
                                   "must be a section (dict), not " + type_name_of(entry.value)));
      }
    } else if (section.empty() && holds_anchors(entry)) {
      // what aliases repeat elsewhere; it says nothing by itself
    } else {
      Issue issue = issue_at(entry.value, written, "unknown key");
      issue.source = entry.source;
      const std::string meant = suggest_key(section, entry.key);
      if (!meant.empty()) issue.rule += "; did you mean " + meant + "?";
      issues_.push_back(std::move(issue));
    }
  }

  // A second name of a key that is given already must say the same; null says nothing.
  void record(const Given& given) {
    const auto earlier = std::ranges::find(given_, given.field, &Given::field);
    if (earlier == given_.end()) {
      given_.push_back(given);
    } else if (earlier->value->is_null()) {
      *earlier = given;
    } else if (!given.value->is_null() && !say_the_same(*earlier, given)) {
      issues_.push_back(issue_at(*given.value, given.written,
                                 "is another name of " + earlier->written + " = " +
                                     display(*earlier->value) + ", which must be the same"));
    }
  }

  std::vector<Issue>& issues_;
  std::vector<Given> given_;
};

// The map that holds `path`'s last key, made where it is missing; nullptr where something else is
// in the way.
Value* open_section(Value& root, const std::vector<std::string>& path, const Source& source) {
  Value* at = &root;
  std::string section;
  for (size_t depth = 0; depth + 1 < path.size(); ++depth) {
    if (at->is_null()) at->kind = Value::Kind::kMap;
    if (at->kind != Value::Kind::kMap) return nullptr;
    const std::string name = canonical_key(section, path[depth]);
    Value* next = nullptr;
    for (Value::Entry& entry : at->entries) {
      if (canonical_key(section, entry.key) == name) next = &entry.value;
    }
    if (!next) {
      Value empty;
      empty.source = source;
      at->entries.push_back({path[depth], source, std::move(empty)});
      next = &at->entries.back().value;
    }
    section = join(section, name);
    at = next;
  }
  if (at->is_null()) at->kind = Value::Kind::kMap;
  return at->kind == Value::Kind::kMap ? at : nullptr;
}

std::vector<std::string> split_path(std::string_view text) {
  std::vector<std::string> parts;
  for (size_t start = 0;;) {
    const size_t dot = text.find('.', start);
    parts.emplace_back(text.substr(start, dot - start));
    if (dot == std::string_view::npos) return parts;
    start = dot + 1;
  }
}

// Sections whose keys MindFormers hands on as they are, where null means left out.
bool is_open(std::string_view path) {
  return path.starts_with("model.") || path.starts_with("lr_scheduler.") ||
         path.starts_with("train_dataset.dataloader.");
}

// Expands the paths in `value`, a string or a list of them. Returns what is wrong.
std::optional<std::string> expand(Value& value) {
  std::string problem;
  if (value.kind == Value::Kind::kScalar && !value.is_null()) {
    value.text = expand_path(value.text, problem);
  }
  for (size_t i = 0; i < value.items.size() && problem.empty(); ++i) {
    if (auto wrong = expand(value.items[i])) {
      problem = "item " + std::to_string(i) + " " + *wrong;
    }
  }
  if (problem.empty()) return std::nullopt;
  return problem;
}

// Where each item of a list was written.
void note_items(const std::string& path, const Value& value, Provenance& provenance) {
  for (size_t i = 0; i < value.items.size(); ++i) {
    provenance[path + "[" + std::to_string(i) + "]"] = value.items[i].source;
  }
}

}  // namespace

void apply_override(Value& root, const std::string& assignment, std::vector<Issue>& issues) {
  const Source source{"--set " + assignment, 0};
  const auto report = [&](const std::string& rule) {
    Issue issue;
    issue.source = source;
    issue.rule = rule;
    issues.push_back(std::move(issue));
  };
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    return report("must be section.field=value");
  }
  const std::vector<std::string> path = split_path(std::string_view(assignment).substr(0, equals));
  if (std::ranges::any_of(path, &std::string::empty)) return report("must be section.field=value");

  const size_t before = issues.size();
  Value value = parse_inline(assignment.substr(equals + 1), source.file, issues);
  if (issues.size() > before) return;  // what it was to be is not known
  Value* section = open_section(root, path, source);
  if (!section) return report("goes through something that is no section");
  std::string name;
  for (size_t i = 0; i + 1 < path.size(); ++i) name = join(name, canonical_key(name, path[i]));
  const std::string key = canonical_key(name, path.back());
  std::erase_if(section->entries,
                [&](const Value::Entry& entry) { return canonical_key(name, entry.key) == key; });
  section->entries.push_back({path.back(), source, std::move(value)});
}

std::vector<Given> collect_keys(const Value& root, std::vector<Issue>& issues) {
  Collector collector(issues);
  if (root.kind == Value::Kind::kMap) {
    collector.walk("", root);
  } else if (!root.is_null()) {
    issues.push_back(
        issue_at(root, "", "the document must be a dict of sections, not " + type_name_of(root)));
  }
  return collector.take();
}

bool say_the_same(const Given& a, const Given& b) {
  const Field& field = *a.field;
  if (!field.address) return display(*a.value) == display(*b.value);
  Config left, right;
  return !field.type->read(*a.value, field.address(left)) &&
         !field.type->read(*b.value, field.address(right)) &&
         field.type->equal(field.address(left), field.address(right));
}

void read_key(const Given& given, Config& config, Provenance& provenance,
              std::vector<Issue>& issues) {
  const Field& field = *given.field;
  const Value* value = given.value;
  if (value->is_null() && is_open(field.path) && field.type->check(*value)) return;
  Value lowered;
  if (field.lower_case && value->kind == Value::Kind::kScalar) {
    lowered = *value;
    std::ranges::transform(lowered.text, lowered.text.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    value = &lowered;
  }
  std::optional<std::string> wrong;
  Value expanded;
  if (field.is_path) {
    expanded = *value;
    wrong = expand(expanded);
    value = &expanded;
  }
  if (!wrong) {
    wrong =
        field.address ? field.type->read(*value, field.address(config)) : field.type->check(*value);
  }
  if (!wrong && !field.address) wrong = check_unstored(field, *value);
  const std::string path(field.path);
  if (wrong) {
    issues.push_back(issue_at(*given.value, given.written, *wrong));
    return;
  }
  provenance[path] = value->source;
  note_items(path, *value, provenance);
}

}  // namespace tessera
