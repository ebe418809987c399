#include "tessera/train/time_collectives.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <functional>

namespace tessera {
namespace {

using Operation = std::function<void()>;

struct Case {
  std::string name;
  double sent = 0.0;  // bytes of a rank
  Operation operation;
};

// All of them for tensors of `bytes`.
std::vector<Case> cases(const ProcessGroup& group, int64_t bytes) {
  const int n = group.size();
  const int64_t elements = std::max<int64_t>(bytes / 4 / n, 1) * n;
  const at::Tensor full = at::ones({elements});
  const at::Tensor other = at::ones({elements});
  const at::Tensor part = at::ones({elements / n});
  const double all = 4.0 * static_cast<double>(elements);
  const double others = all * (n - 1) / n;
  const std::vector<int64_t> splits(static_cast<size_t>(n), elements / n);
  const int next = (group.rank() + 1) % n, before = (group.rank() + n - 1) % n;
  return {
      {"all_gather", others, [=, &group] { group.all_gather({full}, {part}).wait(); }},
      {"reduce_scatter", others, [=, &group] { group.reduce_scatter({part}, {full}).wait(); }},
      {"all_reduce", 2 * others,
       [=, &group] {
         full.fill_(1);  // else the sums grow without end
         group.all_reduce({full}).wait();
       }},
      {"all_to_all", others, [=, &group] { group.all_to_all(other, full, splits, splits).wait(); }},
      {"send", all, [=, &group] {
         Work sent = group.send(full, next, 0);
         group.recv(other, before, 0).wait();
         sent.wait();
       }}};
}

}  // namespace

std::vector<CollectiveTimes> time_collectives(const ProcessGroup& group,
                                              const std::string& transport) {
  using Clock = std::chrono::steady_clock;
  std::vector<CollectiveTimes> rows;
  for (const int64_t bytes : {int64_t{1} << 12, int64_t{1} << 20, int64_t{1} << 24}) {
    const std::vector<Case> all = cases(group, bytes);
    rows.resize(all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      const int repeats = static_cast<int>(std::clamp<int64_t>((int64_t{1} << 25) / bytes, 3, 100));
      all[i].operation();
      double best = 1e9;
      for (int round = 0; round < 3; ++round) {
        group.barrier();
        const auto start = Clock::now();
        for (int repeat = 0; repeat < repeats; ++repeat) all[i].operation();
        group.barrier();
        best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
      }
      const at::Tensor longest = at::scalar_tensor(best / repeats, at::kDouble);
      group.all_reduce({longest}, ReduceOp::kMax).wait();
      rows[i].transport = transport;
      rows[i].operation = all[i].name;
      rows[i].ranks = group.size();
      rows[i].seconds.points.push_back({all[i].sent, longest.item<double>()});
    }
  }
  return rows;
}

}  // namespace tessera
