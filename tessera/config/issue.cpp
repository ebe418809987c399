#include "tessera/config/issue.h"

#include <algorithm>

namespace tessera {

bool has_errors(const std::vector<Issue>& issues) {
  return std::ranges::any_of(issues,
                             [](const Issue& issue) { return issue.severity == Severity::kError; });
}

std::string format_issue(const Issue& issue) {
  std::string out = issue.source.file;
  if (issue.source.line > 0) out += ":" + std::to_string(issue.source.line);
  if (issue.severity == Severity::kWarning) out += out.empty() ? "warning" : ": warning";
  if (issue.severity == Severity::kNote) out += out.empty() ? "note" : ": note";
  if (!issue.field.empty()) {
    if (!out.empty()) out += ": ";
    out += issue.field;
    if (!issue.value.empty()) out += " = " + issue.value;
  }
  if (!out.empty()) out += ": ";
  out += issue.rule;
  if (!issue.nearest.empty()) out += "; nearest legal: " + issue.nearest;
  return out;
}

std::string format_issues(const std::vector<Issue>& issues) {
  std::vector<const Issue*> sorted;
  for (const Issue& issue : issues) sorted.push_back(&issue);
  std::ranges::stable_sort(sorted, [](const Issue* a, const Issue* b) {
    if (a->severity != b->severity) return a->severity < b->severity;
    return a->source.line < b->source.line;
  });
  std::string out;
  for (const Issue* issue : sorted) out += format_issue(*issue) + "\n";
  return out;
}

}  // namespace tessera
