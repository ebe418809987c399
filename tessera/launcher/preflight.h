#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/config/family.h"
#include "tessera/config/issue.h"
#include "tessera/layout/parallel_dims.h"
#include "tessera/planner/plan.h"

namespace tessera {

/// A configuration and all that was found in it, before any rank starts.
struct Preflight {
  Config config;
  Provenance provenance;  // of its values
  ParallelDims dims;
  std::optional<DataPlan> data;  // of token files that are there, if nothing else was wrong
  std::vector<Issue> issues;
  bool of_checkpoint = false;  // the errors are about a checkpoint that the run was to go on from

  bool ok() const { return !has_errors(issues); }
};

/// For whom the check is.
struct PreflightOptions {
  int64_t world = 1;
  int64_t ranks_per_node = 0;  // 0: unknown
  /// A run follows: token files, weights, room on the disk or a device that are not there are
  /// errors. Otherwise (a plan) they are warnings. All other checks are the same.
  bool to_run = true;
  FamilyTable families = builtin_families();  // that a model may be of
};

/// Reads the file, applies the overrides ("section.field=value") and checks every rule. Never
/// throws for what the user wrote. All programs ask here, so they give the same verdict.
Preflight preflight(const std::string& path, const std::vector<std::string>& overrides,
                    const PreflightOptions& options);

/// Writes warnings and notes to standard error. Throws ConfigError with all errors, if any;
/// CheckpointError when they are about a checkpoint.
void report_or_throw(const Preflight& checked, const std::string& path);

}  // namespace tessera
