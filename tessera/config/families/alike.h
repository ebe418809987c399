#pragma once

// Models that only have Llama's arithmetic and its names of weights, and say another name in their
// config.json. They are read as the family whose arithmetic it is, after their own keys are
// checked.

#include <string_view>
#include <vector>

#include "tessera/config/issue.h"
#include "tessera/config/yaml/value.h"

namespace tessera {

/// A key that the family does not have.
struct AlikeKey {
  std::string_view name;
  std::string_view taken_as;            // the family's key; empty: only checked
  std::vector<std::string_view> legal;  // each value, or item of a list; empty: any
  std::string_view why;                 // ends the message about another value
};

struct AlikeModel {
  std::string_view model_type;
  std::string_view architecture;
  std::string_view family;
  std::vector<AlikeKey> keys;
  std::vector<std::string_view> needed;  // keys without which another arithmetic is meant
};

/// By model_type or by the name of its class; nullptr: there is none.
const AlikeModel* find_alike_model(std::string_view name);

/// Turns the config.json of `model` into one of its family: takes its own keys away or under the
/// family's names. What is not the family's arithmetic is appended to `issues`.
void read_as_family(const AlikeModel& model, Value& document, std::vector<Issue>& issues);

}  // namespace tessera
