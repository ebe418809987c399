#include "tessera/data/tokenizer/merger.h"

#include <algorithm>
#include <functional>

namespace tessera {

namespace {

// Up to here looking through all pairs for the best is quicker than a heap.
constexpr size_t kShort = 40;

}  // namespace

void Merger::merge(std::vector<int32_t>& ids) {
  if (ids.size() < 2) return;
  ids.size() <= kShort ? merge_short(ids) : merge_long(ids);
}

void Merger::merge_short(std::vector<int32_t>& ids) {
  size_t count = ids.size();
  pairs_.resize(count);
  for (size_t i = 0; i + 1 < count; ++i) pairs_[i] = table_.find(ids[i], ids[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (pairs_[i].rank < pairs_[best].rank) best = i;
    }
    if (pairs_[best].rank == MergeTable::kNone) break;
    ids[best] = pairs_[best].id;
    std::copy(ids.begin() + static_cast<int64_t>(best) + 2,
              ids.begin() + static_cast<int64_t>(count),
              ids.begin() + static_cast<int64_t>(best) + 1);
    std::copy(pairs_.begin() + static_cast<int64_t>(best) + 2,
              pairs_.begin() + static_cast<int64_t>(count),
              pairs_.begin() + static_cast<int64_t>(best) + 1);
    --count;
    if (best + 1 < count) pairs_[best] = table_.find(ids[best], ids[best + 1]);
    if (best > 0) pairs_[best - 1] = table_.find(ids[best - 1], ids[best]);
  }
  ids.resize(count);
}

void Merger::offer(int32_t left, int32_t right) {
  const int32_t a = symbols_[static_cast<size_t>(left)].id;
  const int32_t b = symbols_[static_cast<size_t>(right)].id;
  const MergeTable::Merge merge = table_.find(a, b);
  if (merge.rank == MergeTable::kNone) return;
  heap_.push_back({merge.rank, left, a, b, merge.id});
  std::ranges::push_heap(heap_, std::greater<>{});
}

void Merger::merge_long(std::vector<int32_t>& ids) {
  const auto count = static_cast<int32_t>(ids.size());
  symbols_.resize(ids.size());
  heap_.clear();
  for (int32_t i = 0; i < count; ++i) {
    symbols_[static_cast<size_t>(i)] = {ids[static_cast<size_t>(i)], i - 1,
                                        i + 1 < count ? i + 1 : -1};
  }
  for (int32_t i = 0; i + 1 < count; ++i) offer(i, i + 1);
  while (!heap_.empty()) {
    std::ranges::pop_heap(heap_, std::greater<>{});
    const Candidate best = heap_.back();
    heap_.pop_back();
    Symbol& left = symbols_[static_cast<size_t>(best.place)];
    // Merged meanwhile, itself or its neighbour: then the candidate is out of date.
    if (left.id != best.left || left.next < 0) continue;
    Symbol& right = symbols_[static_cast<size_t>(left.next)];
    if (right.id != best.right) continue;
    left.id = best.merged;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) {
      symbols_[static_cast<size_t>(left.next)].previous = best.place;
      offer(best.place, left.next);
    }
    if (left.previous >= 0) offer(left.previous, best.place);
  }
  ids.clear();
  for (int32_t i = 0; i >= 0; i = symbols_[static_cast<size_t>(i)].next) {
    ids.push_back(symbols_[static_cast<size_t>(i)].id);
  }
}

}  // namespace tessera
