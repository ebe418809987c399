// Every shape of the context-parallel grid with every balance, exchange and other dimension trains
// the same model as one rank. In the short form every shape meets every other dimension once.

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "tests/e2e/layout.h"

namespace tessera::test {
namespace {

bool whole_matrix() {
  const char* matrix = std::getenv("TESSERA_MATRIX");
  return matrix != nullptr && std::string(matrix) == "full";
}

struct Grid {
  const char* method;
  int64_t cp;
  int64_t inner;
};
constexpr Grid kGrids[] = {{"colossal", 2, 1}, {"colossal", 4, 1}, {"ulysses", 2, 2},
                           {"ulysses", 4, 4},  {"hybrid", 4, 2},   {"hybrid", 8, 2},
                           {"hybrid", 8, 4}};

struct Beside {
  const char* name;
  int64_t ranks;
  std::vector<std::string> set;
};
const std::vector<Beside> kBeside = {
    {"alone", 1, {}},
    {"pp2",
     2,
     {"parallelism.pipeline_parallel=2", "parallelism.pipeline_parallel_layers_per_stage=auto"}},
    {"shard2", 2, {"parallelism.data_parallel_shard=2"}},
    {"replicate2", 2, {"parallelism.data_parallel_shard=1"}},
    {"tp2", 2, {"parallelism.tensor_parallel=2"}},
};
constexpr const char* kBalances[] = {"auto", "head_tail", "contiguous"};
constexpr const char* kExchanges[] = {"ring", "allgather"};
const std::vector<std::string> kSteps = {"training.steps=3"};

const RunRecord& reference(const std::string& name) {
  static std::map<std::string, std::unique_ptr<RunRecord>> records;
  auto& record = records[name];
  if (!record) record = train(load_case(name, kSteps, 1), 1, 3);
  return *record;
}

void expect_equal(const std::string& name, const Grid& grid, const Beside& beside,
                  const char* balance, const char* exchange, bool async) {
  SCOPED_TRACE(testing::Message() << name << " " << grid.method << " " << grid.cp << "/"
                                  << grid.inner << " " << beside.name << " " << balance << " "
                                  << exchange << (async ? " async" : ""));
  std::vector<std::string> set = kSteps;
  set.insert(set.end(), beside.set.begin(), beside.set.end());
  set.push_back(local_batch(2));
  if (name != "qwen3_eod64") set.emplace_back("model.use_attn_mask_compression=true");
  const std::string key = "parallelism.context_parallel";
  set.push_back(key + "=" + std::to_string(grid.cp));
  set.push_back(key + "_method=" + grid.method);
  if (grid.inner > 1) {
    set.push_back("parallelism.ulysses_degree_in_cp=" + std::to_string(grid.inner));
  }
  set.push_back(key + "_balance=" + balance);
  set.push_back(key + "_exchange=" + exchange);
  if (async) set.push_back(key + "_async=true");
  const int64_t ranks = grid.cp * beside.ranks;
  expect_same_training(*train(load_case(name, set, ranks), ranks, 3), reference(name), 1e-10);
}

// Four heads: a tensor-parallel rank of two has two.
bool is_legal(const Grid& grid, const Beside& beside) {
  return grid.inner < 4 || std::string(beside.name) != "tp2";
}

class ContextMatrix : public testing::TestWithParam<size_t> {};  // of kBeside

TEST_P(ContextMatrix, EqualsOneRank) {
  const Beside& beside = kBeside[GetParam()];
  for (size_t g = 0; g < std::size(kGrids); ++g) {
    const Grid& grid = kGrids[g];
    if (!is_legal(grid, beside)) continue;
    const size_t at = g + GetParam();
    if (!whole_matrix()) {
      expect_equal(kDenseCases[(g + 2 * GetParam()) % 4], grid, beside, kBalances[at % 3],
                   kExchanges[at % 2], grid.inner > 1 && at % 4 < 2);
      continue;
    }
    const bool has_rows = grid.inner < grid.cp;
    for (const std::string& name : kDenseCases) {
      for (size_t balance = 0; balance < (has_rows ? 3u : 1u); ++balance) {
        for (size_t exchange = 0; exchange < (has_rows ? 2u : 1u); ++exchange) {
          for (const bool async : {false, true}) {
            if (async && grid.inner == 1) continue;
            expect_equal(name, grid, beside, kBalances[balance], kExchanges[exchange], async);
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Beside, ContextMatrix, testing::Range<size_t>(0, 5),
                         [](const auto& info) { return std::string(kBeside[info.param].name); });

TEST(ContextMatrix, UlyssesDegreeBeyondTheHeadsOfARankIsRefused) {
  try {
    load_case(
        "llama_sgd64",
        {"parallelism.tensor_parallel=2", "parallelism.context_parallel=4",
         "parallelism.context_parallel_method=ulysses", "model.use_attn_mask_compression=true"},
        8);
    FAIL() << "accepted";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what())
                  .find("must divide the attention heads of a tensor-parallel rank (2)"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tessera::test
