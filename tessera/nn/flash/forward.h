#pragma once

// Forward pass of one block of queries (Dao 2023, FlashAttention-2, arXiv 2307.08691): scores lie
// transposed, a row for a key and a lane for a query, so that maxima and sums over keys are taken
// lane by lane and the result is gathered as columns.

#include <cmath>

#include "tessera/nn/flash/micro_kernel.h"
#include "tessera/nn/flash/pack.h"
#include "tessera/nn/flash/room.h"
#include "tessera/nn/flash/scores.h"
#include "tessera/nn/flash/vector_functions.h"

namespace tessera::kernels::flash {

/// Columns of a panel begin at lane x size: panels lie one after the other.
template <typename L>
struct ForwardRoom {
  using W = typename L::W;
  W *queries, *result;     // columns of q and of the result, panel by panel
  W *keys, *values;        // rows
  W* scores;               // of a panel: a row for a key
  W *top, *sum, *largest;  // of each lane: largest score so far in base 2, sum of powers of 2, and
                           // the largest score itself

  ForwardRoom(const Sizes& s, Room& room) {
    const int64_t lanes = round_up(std::min(kForwardQueries, s.queries), L::kLanes);
    const int64_t rows = round_up(std::min(kBlockKeys, s.keys), L::kRows);
    const int64_t size = row_elements<L>(s.size), value_size = row_elements<L>(s.value_size);
    queries = room.take<W>(lanes * size);
    result = room.take<W>(lanes * value_size);
    keys = room.take<W>(rows * size);
    values = room.take<W>(rows * value_size);
    scores = room.take<W>(rows * L::kLanes * kColumns);
    top = room.take<W>(lanes);
    sum = room.take<W>(lanes);
    largest = room.take<W>(lanes);
  }
};

template <typename L, typename T>
struct ForwardBlock {
  using W = typename L::W;
  using V = typename L::V;
  const ForwardProblem<T>& f;
  ForwardRoom<L>& room;
  Block<L>& block;
  int64_t head;
  int64_t size, value_size;  // of rows, padded

  TESSERA_INLINE void run() {
    const Sizes& s = f.sizes;
    const int64_t kv_head = head / s.heads_of_kv();
    for (int64_t p = 0; p < block.panels; ++p) {
      with_columns(block.panel[p].vectors, [&](auto c) { begin<c>(block.panel[p]); });
    }
    for (int64_t key = block.seen.begin; key < block.seen.end; key += kBlockKeys) {
      const int64_t count = std::min(kBlockKeys, block.seen.end - key);
      const int64_t padded = round_up(count, L::kRows);
      pack_rows<L>(f.k.row(block.sample, kv_head, key), f.k.place, count, s.size, room.keys, size,
                   padded);
      pack_rows<L>(f.v.row(block.sample, kv_head, key), f.v.place, count, s.value_size, room.values,
                   value_size, padded);
      for (int64_t p = 0; p < block.panels; ++p) {
        const Panel& panel = block.panel[p];
        const Rows rows = rows_of<L>(panel, key, count);
        if (rows.begin == rows.end) continue;
        with_columns(panel.vectors, [&](auto c) { attend<c>(panel, key, rows); });
      }
    }
    for (int64_t p = 0; p < block.panels; ++p) {
      with_columns(block.panel[p].vectors, [&](auto c) { finish<c>(block.panel[p]); });
    }
  }

  /// Nothing is seen yet but the sink, or what is merged.
  template <int C>
  TESSERA_INLINE void begin(const Panel& panel) {
    constexpr int64_t kWidth = C * L::kLanes;
    const Sizes& s = f.sizes;
    const int64_t query = block.first + panel.lane;
    pack_columns<L>(f.q.row(block.sample, head, query), f.q.place, panel.queries, s.size,
                    room.queries + panel.lane * size, kWidth);
    W* result = room.result + panel.lane * value_size;
    if (f.merge) {
      pack_columns<L>(f.wide_out.row(block.sample, head, query), f.wide_out.place, panel.queries,
                      s.value_size, result, kWidth);
    } else {
      for (int64_t i = 0; i < value_size * kWidth; i += L::kLanes) store_vector<L>(result + i, V{});
    }
    for (int64_t i = 0; i < kWidth; ++i) {
      W top = kLowest<W>, sum = 0;
      if (f.merge && i < panel.queries) {
        const W lse = *f.lse.row(block.sample, head, query + i);
        if (!(lse < kLowest<W>)) top = lse * static_cast<W>(kLog2E), sum = 1;
      }
      if (f.sinks) {  // a key whose value is zero
        const W sink = f.sinks[head] * static_cast<W>(kLog2E);
        top = sink, sum = 1;
      }
      room.top[panel.lane + i] = top;
      room.sum[panel.lane + i] = sum;
      room.largest[panel.lane + i] = -std::numeric_limits<W>::infinity();
    }
  }

  template <int C>
  TESSERA_INLINE void attend(const Panel& panel, int64_t key, const Rows& rows) {
    constexpr int64_t kWidth = C * L::kLanes;
    V largest[C];
    score<C>(panel, key, rows, largest);

    const W factor = static_cast<W>(base2_factor(f.scores));
    V top[C], sum[C], shrink[C];
    for (int c = 0; c < C; ++c) {
      W* const lanes = room.top + panel.lane + c * L::kLanes;
      const V before = load_vector<L>(lanes);
      top[c] = larger<L>(largest[c] * factor, before);
      store_vector<L>(lanes, top[c]);
      shrink[c] = exp2_of<L>(before - top[c]);
      sum[c] = V{};
    }
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      W* row = room.scores + r * kWidth;
#pragma GCC unroll 3
      for (int c = 0; c < C; ++c) {
        const V power = exp2_of<L>(load_vector<L>(row + c * L::kLanes) * factor - top[c]);
        sum[c] += power;
        store_vector<L>(row + c * L::kLanes, power);
      }
    }
    for (int c = 0; c < C; ++c) {
      W* const lanes = room.sum + panel.lane + c * L::kLanes;
      store_vector<L>(lanes, load_vector<L>(lanes) * shrink[c] + sum[c]);
      W* const most = room.largest + panel.lane + c * L::kLanes;
      store_vector<L>(most, larger<L>(largest[c], load_vector<L>(most)));
    }
    gather<C>(panel, rows, shrink);
  }

  /// Rows of scores, and the largest of each lane.
  template <int C>
  TESSERA_INLINE void score(const Panel& panel, int64_t key, const Rows& rows, V (&largest)[C]) {
    constexpr int64_t kWidth = C * L::kLanes;
    const W* queries = room.queries + panel.lane * size;
    for (int c = 0; c < C; ++c) largest[c] = all_lanes<L>(-std::numeric_limits<W>::infinity());
    for (int64_t r = rows.begin; r < rows.end; r += L::kRows) {
      Tile<L, C> tile;
      clear<L, C>(tile);
      multiply_add<L, C>(tile, f.sizes.size, room.keys + r * size, size, 1, queries, kWidth);
      if (f.scores.cap > 0) cap_scores<L, C>(tile, f.scores);
      if (!sees_all<L>(panel, key + r)) {
        hide<L, C>(tile, block.low + panel.lane, block.high + panel.lane, key + r);
      }
#pragma GCC unroll 8
      for (int i = 0; i < L::kRows; ++i) {
#pragma GCC unroll 3
        for (int c = 0; c < C; ++c) largest[c] = larger<L>(tile.at[i][c], largest[c]);
      }
      store_tile<L, C>(tile, room.scores + r * kWidth, kWidth);
    }
  }

  /// result = result * shrink + values^T powers.
  template <int C>
  TESSERA_INLINE void gather(const Panel& panel, const Rows& rows, const V (&shrink)[C]) {
    constexpr int64_t kWidth = C * L::kLanes;
    W* result = room.result + panel.lane * value_size;
    for (int64_t e = 0; e < f.sizes.value_size; e += L::kRows) {
      Tile<L, C> tile;
      load_tile<L, C>(tile, result + e * kWidth, kWidth);
#pragma GCC unroll 8
      for (int r = 0; r < L::kRows; ++r) {
#pragma GCC unroll 3
        for (int c = 0; c < C; ++c) tile.at[r][c] *= shrink[c];
      }
      multiply_add<L, C>(tile, rows.end - rows.begin, room.values + rows.begin * value_size + e, 1,
                         value_size, room.scores + rows.begin * kWidth, kWidth);
      store_tile<L, C>(tile, result + e * kWidth, kWidth);
    }
  }

  template <int C>
  TESSERA_INLINE void finish(const Panel& panel) {
    constexpr int64_t kWidth = C * L::kLanes;
    const int64_t query = block.first + panel.lane;
    W* result = room.result + panel.lane * value_size;
    for (int c = 0; c < C; ++c) {
      W* const lanes = room.sum + panel.lane + c * L::kLanes;
      W* const top = room.top + panel.lane + c * L::kLanes;
      const V sum = load_vector<L>(lanes);
      const V none = all_lanes<L>(-std::numeric_limits<W>::infinity());
      const V inverse = sum == W{0} ? V{} : W{1} / sum;
      const V lse = load_vector<L>(top) * static_cast<W>(kLn2) + log_of<L>(sum);
      store_vector<L>(top, sum == W{0} ? none : lse);
      for (int64_t e = 0; e < f.sizes.value_size; ++e) {
        W* const at = result + e * kWidth + c * L::kLanes;
        store_vector<L>(at, load_vector<L>(at) * inverse);
      }
    }
    for (int64_t i = 0; i < panel.queries; ++i) {
      *f.lse.row(block.sample, head, query + i) = room.top[panel.lane + i];
    }
    unpack_columns<L>(result, kWidth, panel.queries, f.sizes.value_size,
                      [&](int64_t i, int64_t e, V row, int64_t part) {
                        if (f.wide) {
                          store_row<L>(f.wide_out.row(block.sample, head, query + i) + e, row,
                                       part);
                        } else {
                          store_row<L>(f.out.row(block.sample, head, query + i) + e, row, part);
                        }
                      });
  }

  /// Of the block's queries.
  TESSERA_INLINE W largest_score() const {
    W most = -std::numeric_limits<W>::infinity();
    for (int64_t i = 0; i < block.count; ++i) most = std::max(most, room.largest[i]);
    return f.scores.cap > 0 ? most : most * static_cast<W>(f.scores.scale);
  }
};

template <typename L, typename T>
void run_forward(const ForwardProblem<T>& f, int64_t begin, int64_t end, std::byte* memory) {
  const int64_t blocks = divide_up(f.sizes.queries, kForwardQueries);
  Room arrays(memory);
  ForwardRoom<L> room(f.sizes, arrays);
  for (int64_t task = begin; task < end; ++task) {
    const int64_t first = task % blocks * kForwardQueries;
    const int64_t head = task / blocks % f.sizes.heads;
    Block<L> block(f.sizes, f.mask, task / blocks / f.sizes.heads, first,
                   std::min(kForwardQueries, f.sizes.queries - first));
    ForwardBlock<L, T> own{
        f, room, block, head, row_elements<L>(f.sizes.size), row_elements<L>(f.sizes.value_size)};
    own.run();
    if (f.largest) f.largest[task] = own.largest_score();
  }
}

}  // namespace tessera::kernels::flash
