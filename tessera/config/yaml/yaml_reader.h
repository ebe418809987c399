#pragma once

#include <string>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/config/fields/field.h"
#include "tessera/config/issue.h"
#include "tessera/config/yaml/value.h"

namespace tessera {

/// A known key with the value that was given to it.
struct Given {
  const Field* field = nullptr;
  std::string written;  // the path as written: model.num_layers for model.num_hidden_layers
  const Value* value = nullptr;
};

/// Replaces a value of the tree by that of "section.field=value"; what is wrong with it is
/// appended to `issues`.
void apply_override(Value& root, const std::string& assignment, std::vector<Issue>& issues);

/// The known keys of a document in its order. Unknown keys, keys that are no sections, two names of
/// one key that disagree: appended to `issues`. `root` must outlive the result.
std::vector<Given> collect_keys(const Value& root, std::vector<Issue>& issues);

/// Whether two values of one field are equal, however they are written.
bool say_the_same(const Given& a, const Given& b);

/// Stores one value in `config` and its place in `provenance`; a wrong type is appended to `issues`
/// and nothing is stored. null means left out for a key of model, lr_scheduler or dataloader that
/// cannot be null.
void read_key(const Given& given, Config& config, Provenance& provenance,
              std::vector<Issue>& issues);

}  // namespace tessera
