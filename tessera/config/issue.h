#pragma once

#include <map>
#include <string>
#include <vector>

namespace tessera {

enum class Severity { kError, kWarning, kNote };

/// Where a value was written: a line of a file (from 1), or a --set (line 0).
struct Source {
  std::string file;  // file name, or "--set a.b=c"
  int line = 0;
};

/// Dotted path of a value ("parallelism.tensor_parallel") -> where it was given. What is not in
/// here is a default. The empty path stands for the file as a whole.
using Provenance = std::map<std::string, Source>;

/// One finding. Printed as `x.yaml:12: parallelism.tensor_parallel = 3: must divide
/// num_attention_heads (8); nearest legal: 2, 4`.
struct Issue {
  Severity severity = Severity::kError;
  Source source;
  std::string field;    // dotted path; empty: the file as a whole
  std::string value;    // as written; empty: not given
  std::string rule;     // what must hold, or what is so
  std::string nearest;  // nearest legal values, empty when there is nothing to list
};

bool has_errors(const std::vector<Issue>& issues);

/// One issue on one line, without a line end.
std::string format_issue(const Issue& issue);

/// One line an issue: errors first, then warnings, then notes, each in file order.
std::string format_issues(const std::vector<Issue>& issues);

}  // namespace tessera
