#include "tessera/schedule/balance.h"

#include <cmath>
#include <tuple>

#include "tessera/base/error.h"

namespace tessera {

std::vector<int64_t> balance_layers(int64_t layers, int64_t stages, int64_t chunks,
                                    double embedding, double head) {
  TESSERA_CHECK(stages >= 1 && chunks >= 1, stages, " stages, ", chunks, " chunks");
  const int64_t count = stages * chunks;
  if (layers < count) return {};

  std::vector<int64_t> sizes(count, 1);
  const auto work = [&](int64_t stage) {
    return static_cast<double>(sizes[stage]) + (stage == 0 ? embedding : 0) +
           (stage == count - 1 ? head : 0);
  };
  const auto work_of_rank = [&](int64_t rank) {
    double sum = 0;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) sum += work(chunk * stages + rank);
    return sum;
  };
  const auto from_middle = [&](int64_t stage) {
    return std::abs(static_cast<double>(stage) - static_cast<double>(count - 1) / 2);
  };

  for (int64_t left = layers - count; left > 0; --left) {
    int64_t rank = 0;
    for (int64_t r = 1; r < stages; ++r) {
      if (work_of_rank(r) < work_of_rank(rank)) rank = r;
    }
    int64_t best = rank;
    for (int64_t stage = rank + stages; stage < count; stage += stages) {
      if (std::tuple(work(stage), from_middle(stage)) < std::tuple(work(best), from_middle(best))) {
        best = stage;
      }
    }
    ++sizes[best];
  }
  return sizes;
}

std::vector<std::string> suggest_balanced_layers(int64_t layers, int64_t stages, int64_t chunks,
                                                 double embedding, double head) {
  const std::vector<int64_t> sizes = balance_layers(layers, stages, chunks, embedding, head);
  if (sizes.empty()) return {};
  std::vector<std::string> entries(stages);
  int64_t first = 0;
  for (int64_t stage = 0; stage < stages * chunks; ++stage) {
    const int64_t last = first + sizes[stage] - 1;
    std::string& entry = entries[stage % stages];
    if (stage >= stages) entry += ", ";
    entry += std::to_string(first);
    if (last > first) entry += "-" + std::to_string(last);
    first = last + 1;
  }
  return entries;
}

}  // namespace tessera
