#pragma once

#include <cstdint>
#include <vector>

#include "tessera/data/tokenizer/merge_table.h"

namespace tessera {

/// Merges neighbours until none can be: always the pair of the lowest rank, the leftmost of equals.
/// Holds memory that calls use again; one thread at a time.
class Merger {
 public:
  explicit Merger(const MergeTable& table) : table_(table) {}

  /// Replaces `ids` by what they merge to. O(n log n).
  void merge(std::vector<int32_t>& ids);

 private:
  void merge_short(std::vector<int32_t>& ids);
  void merge_long(std::vector<int32_t>& ids);

  struct Symbol {
    int32_t id;
    int32_t previous;  // places; -1: none
    int32_t next;
  };
  struct Candidate {
    int32_t rank;
    int32_t place;  // of the left one
    int32_t left, right;
    int32_t merged;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : place > other.place;
    }
  };
  void offer(int32_t left, int32_t right);

  const MergeTable& table_;
  std::vector<MergeTable::Merge> pairs_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

}  // namespace tessera
