#pragma once

// Whole trainings as data: a file, changes to it, a number of ranks; and what must be equal.

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/config/family.h"
#include "tessera/train/parity/recorder.h"

namespace tessera::test {

struct Layout {
  std::string name;
  int64_t ranks = 1;
  std::vector<std::string> set;  // "section.field=value"
};
inline std::ostream& operator<<(std::ostream& out, const Layout& layout) {
  return out << layout.name;
}

/// Changes, then more of them.
inline std::vector<std::string> operator+(std::vector<std::string> a,
                                          const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// The file of a reference run with changes; every rule checked. Throws on any error.
Config load_case(const std::string& name, const std::vector<std::string>& set, int64_t ranks,
                 const FamilyTable& families = builtin_families());

/// Trains it on thread ranks.
std::unique_ptr<RunRecord> train(const Config& config, int64_t ranks, int64_t steps);

/// The training of a reference run on one rank, made once per process.
const RunRecord& one_rank(const std::string& name);

/// The float64 reference runs of dense models.
inline const std::vector<std::string> kDenseCases = {"llama_sgd64", "llama_adamw64", "qwen3_tied64",
                                                     "qwen3_eod64"};

inline std::string shard(int64_t degree) {
  return "parallelism.data_parallel_shard=" + std::to_string(degree);
}
inline std::string local_batch(int64_t batch) {
  return "training.local_batch_size=" + std::to_string(batch);
}
inline std::string policy(const std::string& name) {
  return "parallelism.reshard_after_forward_policy=" + name;
}
inline std::string tp(int64_t degree) {
  return "parallelism.tensor_parallel=" + std::to_string(degree);
}

/// Names the tests of a table of layouts.
inline std::string layout_name(const testing::TestParamInfo<Layout>& info) {
  return info.param.name;
}
inline std::string case_and_layout_name(
    const testing::TestParamInfo<std::tuple<std::string, Layout>>& info) {
  return std::get<0>(info.param) + "_" + std::get<1>(info.param).name;
}

/// Loss and norm of every step, every gradient of step 1 and every value after the last within
/// `tolerance` (gradients and values: max|difference| over the norm); copies bitwise equal.
void expect_same_training(const RunRecord& run, const RunRecord& reference, double tolerance);

/// Every gradient of step 1 and every value after the last: max|difference| over the norm within
/// `tolerance`.
void expect_tensors_near(const RunRecord& run, const RunRecord& reference, double tolerance);

/// Bit for bit.
void expect_identical_training(const RunRecord& run, const RunRecord& reference);

/// Equal to what other software computed (expected.jsonl, expected_grads.json,
/// expected_final.json), relative `tolerance` as tests/cases/README.md defines it.
void expect_matches_case(const RunRecord& run, const std::string& name, double tolerance);

}  // namespace tessera::test
