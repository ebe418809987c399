#pragma once

// Whole trainings as data: a file, changes to it, a number of ranks; and what must be equal.

#include <memory>
#include <string>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/train/recorder.h"

namespace tessera::test {

struct Layout {
  std::string name;
  int64_t ranks = 1;
  std::vector<std::string> set;  // "section.field=value"
};

/// The file of a reference run with changes; every rule checked. Fails the test on any error.
Config load_case(const std::string& name, const std::vector<std::string>& set, int64_t ranks);

/// Trains it on thread ranks.
std::unique_ptr<RunRecord> train(const Config& config, int64_t ranks, int64_t steps);

/// Loss and norm of every step, every gradient of step 1 and every value after the last within
/// `tolerance` (gradients and values: max|difference| over the norm); copies bitwise equal.
void expect_same_training(const RunRecord& run, const RunRecord& reference, double tolerance);

/// Bit for bit.
void expect_identical_training(const RunRecord& run, const RunRecord& reference);

/// Equal to what other software computed (expected.jsonl, expected_grads.json, expected_final.json),
/// relative `tolerance` as tests/cases/README.md defines it.
void expect_matches_case(const RunRecord& run, const std::string& name, double tolerance);

}  // namespace tessera::test
