#include "tessera/config/yaml/eval_items.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace tessera {
namespace {

// What names data: none of train_dataset's are a set's own.
constexpr std::array<std::string_view, 9> kDataKeys = {
    "data_path", "train_data_path", "valid_data_path", "test_data_path", "split",
    "sizes",     "data_files",      "data_dir",        "dataset_path"};

bool names_data(std::string_view key) {
  return std::ranges::find(kDataKeys, key) != kDataKeys.end();
}

bool names_data_anywhere(const Value& section) {
  return std::ranges::any_of(section.entries, [](const Value::Entry& entry) {
    return names_data(entry.key) || names_data_anywhere(entry.value);
  });
}

void erase_data(Value& section) {
  std::erase_if(section.entries, [](const Value::Entry& entry) { return names_data(entry.key); });
  for (Value::Entry& entry : section.entries) erase_data(entry.value);
}

// Keys of `from` replace those of `into`; sections are merged.
void merge(Value& into, const Value& from) {
  for (const Value::Entry& entry : from.entries) {
    Value* const there = into.find(entry.key);
    if (there == nullptr) {
      into.entries.push_back(entry);
    } else if (there->kind == Value::Kind::kMap && entry.value.kind == Value::Kind::kMap) {
      merge(*there, entry.value);
    } else {
      *there = entry.value;
    }
  }
}

bool is_name(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
  });
}

class Taker {
 public:
  Taker(Value train, std::vector<Issue>& issues) : train_(std::move(train)), issues_(issues) {}

  void take(const Value& value, const std::string& path, const std::string& standard_name) {
    if (value.kind != Value::Kind::kMap) {
      return report(value, path, "must be a set: name and dataloader, or a list of sets");
    }
    EvalItem item{standard_name, path, train_};
    if (item.as_train_dataset.kind != Value::Kind::kMap) {
      item.as_train_dataset = {};
      item.as_train_dataset.kind = Value::Kind::kMap;
    }
    Value own = value;
    if (const Value* name = own.find("name")) {
      item.name = name->text;
      if (!is_name(item.name)) {
        report(*name, path + ".name", "must be letters, digits, '_', '-' and '.'");
      }
      std::erase_if(own.entries, [](const Value::Entry& entry) { return entry.key == "name"; });
    }
    if (std::ranges::find(items_, item.name, &EvalItem::name) != items_.end()) {
      report(value, path + ".name", "is the name of another set, too: " + item.name);
    }
    // Without data of its own a set is the part of the training files that split gives to it.
    if (names_data_anywhere(own)) erase_data(item.as_train_dataset);
    merge(item.as_train_dataset, own);
    items_.push_back(std::move(item));
  }

  std::vector<EvalItem> items() { return std::move(items_); }

 private:
  void report(const Value& at, const std::string& field, const std::string& rule) {
    Issue issue;
    issue.source = at.source;
    issue.field = field;
    issue.value = display(at);
    issue.rule = rule;
    issues_.push_back(std::move(issue));
  }

  Value train_;
  std::vector<Issue>& issues_;
  std::vector<EvalItem> items_;
};

}  // namespace

std::vector<EvalItem> take_eval_items(Value& root, std::vector<Issue>& issues) {
  const Value* const found = root.kind == Value::Kind::kMap ? root.find("eval_dataset") : nullptr;
  if (found == nullptr) return {};
  const Value sets = *found;
  std::erase_if(root.entries,
                [](const Value::Entry& entry) { return entry.key == "eval_dataset"; });
  if (sets.is_null()) return {};
  const Value* const train = root.find("train_dataset");
  Taker taker(train != nullptr ? *train : Value{}, issues);
  if (sets.kind != Value::Kind::kSequence) {
    taker.take(sets, "eval_dataset", "valid");
  } else {
    for (size_t i = 0; i < sets.items.size(); ++i) {
      const std::string number = std::to_string(i);
      taker.take(sets.items[i], "eval_dataset[" + number + "]",
                 sets.items.size() == 1 ? "valid" : "valid_" + number);
    }
  }
  return taker.items();
}

}  // namespace tessera
