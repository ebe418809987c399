#include "tessera/data/deal_units.h"

#include <algorithm>
#include <numeric>

#include "tessera/base/error.h"

namespace tessera {
namespace {

struct Cost {
  int64_t of_rank = 0;           // the largest sum of a rank
  int64_t of_micro_batches = 0;  // every micro-batch lasts as long as its largest unit
};

Cost cost_of(const std::vector<int64_t>& loads, const std::vector<int64_t>& order, int64_t ranks,
             int64_t micro_batches) {
  const auto load_at = [&](int64_t rank, int64_t micro_batch) {
    return loads[static_cast<size_t>(
        order[static_cast<size_t>(rank * micro_batches + micro_batch)])];
  };
  Cost cost;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    int64_t sum = 0;
    for (int64_t m = 0; m < micro_batches; ++m) sum += load_at(rank, m);
    cost.of_rank = std::max(cost.of_rank, sum);
  }
  for (int64_t m = 0; m < micro_batches; ++m) {
    int64_t largest = 0;
    for (int64_t rank = 0; rank < ranks; ++rank) largest = std::max(largest, load_at(rank, m));
    cost.of_micro_batches += largest;
  }
  return cost;
}

}  // namespace

std::vector<int64_t> deal_units(const std::vector<int64_t>& loads, int64_t ranks,
                                int64_t micro_batches) {
  TESSERA_CHECK_EQ(static_cast<int64_t>(loads.size()), ranks * micro_batches);
  std::vector<int64_t> usual(loads.size());
  std::iota(usual.begin(), usual.end(), int64_t{0});
  if (ranks == 1 || micro_batches == 1) return usual;
  std::vector<int64_t> sorted = usual;
  std::ranges::stable_sort(sorted, {},
                           [&](int64_t unit) { return loads[static_cast<size_t>(unit)]; });
  std::vector<int64_t> dealt(loads.size());
  for (int64_t i = 0; i < ranks * micro_batches; ++i) {
    const int64_t micro_batch = i / ranks;
    const int64_t turn = i % ranks;
    const int64_t rank = micro_batch % 2 == 0 ? turn : ranks - 1 - turn;
    dealt[static_cast<size_t>(rank * micro_batches + micro_batch)] = sorted[static_cast<size_t>(i)];
  }
  const Cost before = cost_of(loads, usual, ranks, micro_batches);
  const Cost after = cost_of(loads, dealt, ranks, micro_batches);
  const bool worse =
      after.of_rank > before.of_rank || after.of_micro_batches > before.of_micro_batches;
  const bool better =
      after.of_rank < before.of_rank || after.of_micro_batches < before.of_micro_batches;
  return !worse && better ? dealt : usual;
}

}  // namespace tessera
