#pragma once

#include <string>
#include <vector>

#include "tessera/config/issue.h"
#include "tessera/config/yaml/value.h"

namespace tessera {

/// A set of `eval_dataset`, written as the section train_dataset that it would be.
struct EvalItem {
  std::string name;
  std::string path;  // of its keys in messages: "eval_dataset" or "eval_dataset[1]"
  Value as_train_dataset;
};

/// Takes `eval_dataset` out of a document: one set, or a list of them. What a set leaves out is as
/// in train_dataset, but for what names the data. What is wrong is appended to `issues`.
std::vector<EvalItem> take_eval_items(Value& root, std::vector<Issue>& issues);

}  // namespace tessera
