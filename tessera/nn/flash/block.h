#pragma once

// A block of queries, its panels (a few vectors of queries that go through a tile together), and
// the keys that each panel sees.

#include <algorithm>
#include <limits>

#include "tessera/nn/flash/lanes.h"
#include "tessera/nn/flash/problem.h"

namespace tessera::kernels::flash {

/// Queries of a block, at most, and keys that are packed at once: what a block works on stays in a
/// second-level cache.
constexpr int64_t kForwardQueries = 192;
constexpr int64_t kBackwardQueries = 96;
constexpr int64_t kBlockKeys = 96;

constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
constexpr int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

/// Elements of a packed row of `size`: whole vectors, and whole rows of tiles.
template <typename L>
constexpr int64_t row_elements(int64_t size) {
  return round_up(size, std::max(L::kLanes, L::kRows));
}

/// Vectors in groups of at most kColumns, as equal as possible: begin of group i of `count`.
constexpr int64_t groups_of(int64_t vectors) { return divide_up(vectors, kColumns); }
constexpr int64_t group_begin(int64_t vectors, int64_t i) {
  return vectors * i / groups_of(vectors);
}

/// f(the number of vectors, as a constant).
template <typename F>
TESSERA_INLINE void with_columns(int64_t vectors, const F& f) {
  if (vectors == 3) return f(std::integral_constant<int, 3>{});
  if (vectors == 2) return f(std::integral_constant<int, 2>{});
  f(std::integral_constant<int, 1>{});
}

/// Keys that the queries of a panel see.
struct Seen {
  int64_t begin = 0, end = 0;          // seen by at least one
  int64_t all_begin = 0, all_end = 0;  // seen by every one
};

struct Panel {
  int64_t lane = 0;     // first lane in the block
  int64_t vectors = 0;  // 1 to kColumns
  int64_t queries = 0;  // of its lanes; the rest are padding
  Seen seen;
};

/// Queries [first, first + count) of a sample.
template <typename L>
struct Block {
  using Int = typename L::Int;
  static constexpr int64_t kMostPanels = divide_up(kForwardQueries, L::kLanes* kColumns);

  int64_t sample, first, count;
  int64_t panels = 0;
  Panel panel[kMostPanels];
  Seen seen;
  /// Keys that each lane sees, [low, high]; those of padding are the last query's.
  alignas(64) Int low[kForwardQueries], high[kForwardQueries];

  TESSERA_INLINE Block(const Sizes& sizes, const Mask& mask, int64_t b, int64_t begin,
                       int64_t queries)
      : sample(b), first(begin), count(queries) {
    const int64_t vectors = divide_up(count, L::kLanes);
    for (int64_t lane = 0; lane < vectors * L::kLanes; ++lane) set_bounds(sizes, mask, lane);
    panels = groups_of(vectors);
    seen = {sizes.keys, 0, 0, 0};
    for (int64_t p = 0; p < panels; ++p) {
      Panel& own = panel[p];
      const int64_t from = group_begin(vectors, p);
      own.lane = from * L::kLanes;
      own.vectors = group_begin(vectors, p + 1) - from;
      own.queries = std::min(own.vectors * L::kLanes, count - own.lane);
      own.seen = {sizes.keys, 0, 0, sizes.keys};
      for (int64_t i = own.lane; i < own.lane + own.queries; ++i) {
        own.seen.begin = std::min<int64_t>(own.seen.begin, low[i]);
        own.seen.end = std::max<int64_t>(own.seen.end, high[i] + 1);
        own.seen.all_begin = std::max<int64_t>(own.seen.all_begin, low[i]);
        own.seen.all_end = std::min<int64_t>(own.seen.all_end, high[i] + 1);
      }
      seen.begin = std::min(seen.begin, own.seen.begin);
      seen.end = std::max(seen.end, own.seen.end);
    }
  }

 private:
  TESSERA_INLINE void set_bounds(const Sizes& sizes, const Mask& mask, int64_t lane) {
    const int64_t query = first + std::min(lane, count - 1);
    const int64_t place = mask.first_query + query;
    int64_t from = mask.first_key;
    if (mask.window > 0) from = std::max(from, place - mask.window + 1);
    if (mask.document_begins) {
      from = std::max(from, mask.document_begins[sample * sizes.queries + query]);
    }
    const int64_t to = mask.causal ? std::min(place, mask.first_key + sizes.keys - 1)
                                   : mask.first_key + sizes.keys - 1;
    low[lane] = static_cast<Int>(std::clamp<int64_t>(from - mask.first_key, 0, sizes.keys));
    high[lane] = static_cast<Int>(std::max<int64_t>(to - mask.first_key, -1));
  }
};

/// Rows of tiles [begin, end) of the keys packed from `first` that a panel must compute.
struct Rows {
  int64_t begin, end;
};
template <typename L>
TESSERA_INLINE Rows rows_of(const Panel& panel, int64_t first, int64_t count) {
  const int64_t begin = std::max<int64_t>(0, panel.seen.begin - first);
  const int64_t end = std::min(count, panel.seen.end - first);
  if (begin >= end) return {0, 0};
  return {begin / L::kRows * L::kRows, round_up(end, L::kRows)};
}

/// Whether all queries of the panel see the keys of a tile that begins at `key`.
template <typename L>
TESSERA_INLINE bool sees_all(const Panel& panel, int64_t key) {
  return key >= panel.seen.all_begin && key + L::kRows <= panel.seen.all_end;
}

/// Scores of keys that a query does not see become -infinity.
template <typename L, int C, typename TileOf>
TESSERA_INLINE void hide(TileOf& tile, const typename L::Int* low, const typename L::Int* high,
                         int64_t key) {
  using W = typename L::W;
  constexpr W kNone = -std::numeric_limits<W>::infinity();
  for (int c = 0; c < C; ++c) {
    const typename L::I from = load_integers<L>(low + c * L::kLanes);
    const typename L::I to = load_integers<L>(high + c * L::kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < L::kRows; ++r) {
      const typename L::I place = static_cast<typename L::Int>(key + r) - typename L::I{};
      tile.at[r][c] = (place >= from) & (place <= to) ? tile.at[r][c] : all_lanes<L>(kNone);
    }
  }
}

}  // namespace tessera::kernels::flash
