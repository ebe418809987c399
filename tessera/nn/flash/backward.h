#pragma once

// Backward pass: for each block of queries, over the keys that it sees, scores and their gradients
// are made anew, transposed as in the forward pass. The gradients of keys and values are added
// where they lie, in the order of heads, blocks and panels: one task has all of a kv head.

#include "tessera/nn/flash/micro_kernel.h"
#include "tessera/nn/flash/pack.h"
#include "tessera/nn/flash/room.h"
#include "tessera/nn/flash/scores.h"

namespace tessera::kernels::flash {

template <typename L>
struct BackwardRoom {
  using W = typename L::W;
  W *queries, *query_rows;  // of a block: columns, panel by panel, and rows
  W *grads, *grad_rows;     // of the result
  W* dqueries;              // columns
  W *keys, *values;         // rows
  W *powers, *dscores;      // of a panel: a row for a key
  W *lse, *mean;  // of each lane: log-sum-exp in base 2; result times its gradient, scaled

  BackwardRoom(const Sizes& s, Room& room) {
    const int64_t lanes = round_up(std::min(kBackwardQueries, s.queries), L::kLanes);
    const int64_t rows = round_up(std::min(kBlockKeys, s.keys), L::kRows);
    const int64_t size = row_elements<L>(s.size), value_size = row_elements<L>(s.value_size);
    queries = room.take<W>(lanes * size);
    query_rows = room.take<W>(lanes * size);
    grads = room.take<W>(lanes * value_size);
    grad_rows = room.take<W>(lanes * value_size);
    dqueries = room.take<W>(lanes * std::max(size, value_size));
    keys = room.take<W>(rows * size);
    values = room.take<W>(rows * value_size);
    powers = room.take<W>(rows * L::kLanes * kColumns);
    dscores = room.take<W>(rows * L::kLanes * kColumns);
    lse = room.take<W>(lanes);
    mean = room.take<W>(lanes);
  }
};

/// to[r] += sum over queries of weights[r][query] rows[query]: gradients of `count` keys or values.
template <typename L, int C>
void add_gradients(const typename L::W* weights, int64_t width, int64_t queries,
                   const typename L::W* rows, int64_t row_size, typename L::W* to, int64_t stride,
                   int64_t count, int64_t last) {
  for (int64_t r = 0; r < count; r += L::kRows) {
    Tile<L, C> tile;
    const bool whole = count - r >= L::kRows && last == L::kLanes;
    if (whole) {
      load_tile<L, C>(tile, to + r * stride, stride);
    } else {
      load_edge<L, C>(tile, to + r * stride, stride, count - r, last);
    }
    multiply_add<L, C>(tile, queries, weights + r * width, width, 1, rows, row_size);
    if (whole) {
      store_tile<L, C>(tile, to + r * stride, stride);
    } else {
      store_edge<L, C>(tile, to + r * stride, stride, count - r, last);
    }
  }
}

template <typename L, typename T>
struct BackwardBlock {
  using W = typename L::W;
  using V = typename L::V;
  const BackwardProblem<T>& f;
  BackwardRoom<L>& room;
  Block<L>& block;
  int64_t head;
  int64_t size, value_size;  // of rows, padded
  double* dsink;             // of the head, or null

  void run() {
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
        with_columns(panel.vectors, [&](auto c) {
          score<c>(panel, key, rows);
          add_dqueries<c>(panel, rows);
        });
        const int64_t width = panel.vectors * L::kLanes, valid = std::min(rows.end, count);
        add_rows(room.powers + rows.begin * width, width, panel.queries,
                 room.grad_rows + panel.lane * value_size, s.value_size, value_size,
                 f.dv.row(block.sample, kv_head, key + rows.begin), f.dv.place, valid - rows.begin);
        add_rows(room.dscores + rows.begin * width, width, panel.queries,
                 room.query_rows + panel.lane * size, s.size, size,
                 f.dk.row(block.sample, kv_head, key + rows.begin), f.dk.place, valid - rows.begin);
      }
    }
    for (int64_t p = 0; p < block.panels; ++p) finish(block.panel[p]);
  }

  template <int C>
  TESSERA_INLINE void begin(const Panel& panel) {
    constexpr int64_t kWidth = C * L::kLanes;
    const Sizes& s = f.sizes;
    const int64_t b = block.sample, query = block.first + panel.lane;
    W* const queries = room.queries + panel.lane * size;
    W* const grads = room.grads + panel.lane * value_size;
    W* const dqueries = room.dqueries + panel.lane * std::max(size, value_size);
    pack_columns<L>(f.q.row(b, head, query), f.q.place, panel.queries, s.size, queries, kWidth);
    pack_columns<L>(f.grad_out.row(b, head, query), f.grad_out.place, panel.queries, s.value_size,
                    grads, kWidth);
    pack_rows<L>(f.q.row(b, head, query), f.q.place, panel.queries, s.size,
                 room.query_rows + panel.lane * size, size, panel.queries);
    pack_rows<L>(f.grad_out.row(b, head, query), f.grad_out.place, panel.queries, s.value_size,
                 room.grad_rows + panel.lane * value_size, value_size, panel.queries);
    pack_columns<L>(f.out.row(b, head, query), f.out.place, panel.queries, s.value_size, dqueries,
                    kWidth);

    W* const lse = room.lse + panel.lane;
    for (int64_t i = 0; i < kWidth; ++i) {
      lse[i] = -kLowest<W>;  // no power of 2 is left
      if (i >= panel.queries) continue;
      const W own = *f.lse.row(b, head, query + i);
      if (!(own < kLowest<W>)) lse[i] = own * static_cast<W>(kLog2E);
    }
    V of_sink{};
    for (int c = 0; c < C; ++c) {
      V mean{};
      for (int64_t e = 0; e < s.value_size; ++e) {
        mean += load_vector<L>(grads + e * kWidth + c * L::kLanes) *
                load_vector<L>(dqueries + e * kWidth + c * L::kLanes);
      }
      if (f.sinks) {
        const W sink = f.sinks[head] * static_cast<W>(kLog2E);
        of_sink += exp2_of<L>(sink - load_vector<L>(lse + c * L::kLanes)) * mean;
      }
      store_vector<L>(room.mean + panel.lane + c * L::kLanes,
                      mean * static_cast<W>(f.scores.scale));
    }
    if (f.dsinks) {
      alignas(64) W lanes[L::kLanes];
      store_vector<L>(lanes, of_sink);
      for (const W lane : lanes) *dsink -= static_cast<double>(lane);
    }
    for (int64_t i = 0; i < size * kWidth; i += L::kLanes) store_vector<L>(dqueries + i, V{});
  }

  /// Shares of the keys in the result, and gradients of the products q k^T.
  template <int C>
  TESSERA_INLINE void score(const Panel& panel, int64_t key, const Rows& rows) {
    constexpr int64_t kWidth = C * L::kLanes;
    const W* queries = room.queries + panel.lane * size;
    const W* grads = room.grads + panel.lane * value_size;
    const W* lse = room.lse + panel.lane;
    const W* mean = room.mean + panel.lane;
    const W factor = static_cast<W>(base2_factor(f.scores));
    const W scale = static_cast<W>(f.scores.scale);
    const bool capped = f.scores.cap > 0;
    for (int64_t r = rows.begin; r < rows.end; r += L::kRows) {
      W* const powers = room.powers + r * kWidth;
      W* const dscores = room.dscores + r * kWidth;
      Tile<L, C> tile;
      clear<L, C>(tile);
      multiply_add<L, C>(tile, f.sizes.size, room.keys + r * size, size, 1, queries, kWidth);
      if (capped) {
        cap_scores<L, C>(tile, f.scores);
        store_slopes<C>(tile, dscores);
      }
      if (!sees_all<L>(panel, key + r)) {
        hide<L, C>(tile, block.low + panel.lane, block.high + panel.lane, key + r);
      }
#pragma GCC unroll 3
      for (int c = 0; c < C; ++c) {
        const V sum = load_vector<L>(lse + c * L::kLanes);
#pragma GCC unroll 8
        for (int i = 0; i < L::kRows; ++i) {
          store_vector<L>(powers + i * kWidth + c * L::kLanes,
                          exp2_of<L>(tile.at[i][c] * factor - sum));
        }
      }
      clear<L, C>(tile);
      multiply_add<L, C>(tile, f.sizes.value_size, room.values + r * value_size, value_size, 1,
                         grads, kWidth);
#pragma GCC unroll 3
      for (int c = 0; c < C; ++c) {
        const V along = load_vector<L>(mean + c * L::kLanes);
#pragma GCC unroll 8
        for (int i = 0; i < L::kRows; ++i) {
          const int64_t at = i * kWidth + c * L::kLanes;
          V d = (tile.at[i][c] * scale - along) * load_vector<L>(powers + at);
          if (capped) d *= load_vector<L>(dscores + at);
          store_vector<L>(dscores + at, d);
        }
      }
    }
  }

  /// Derivatives of the capped scores by the others: 1 - tanh^2.
  template <int C>
  TESSERA_INLINE void store_slopes(const Tile<L, C>& tile, W* to) const {
    const W inverse = static_cast<W>(1 / f.scores.cap);
    for (int r = 0; r < L::kRows; ++r) {
      for (int c = 0; c < C; ++c) {
        const V t = tile.at[r][c] * inverse;
        store_vector<L>(to + (r * C + c) * L::kLanes, W{1} - t * t);
      }
    }
  }

  template <int C>
  TESSERA_INLINE void add_dqueries(const Panel& panel, const Rows& rows) {
    constexpr int64_t kWidth = C * L::kLanes;
    W* const to = room.dqueries + panel.lane * std::max(size, value_size);
    for (int64_t e = 0; e < f.sizes.size; e += L::kRows) {
      Tile<L, C> tile;
      load_tile<L, C>(tile, to + e * kWidth, kWidth);
      multiply_add<L, C>(tile, rows.end - rows.begin, room.keys + rows.begin * size + e, 1, size,
                         room.dscores + rows.begin * kWidth, kWidth);
      store_tile<L, C>(tile, to + e * kWidth, kWidth);
    }
  }

  TESSERA_INLINE void add_rows(const W* weights, int64_t width, int64_t queries, const W* rows,
                               int64_t elements, int64_t row_size, W* to, int64_t stride,
                               int64_t count) {
    const int64_t vectors = divide_up(elements, L::kLanes);
    for (int64_t g = 0; g < groups_of(vectors); ++g) {
      const int64_t from = group_begin(vectors, g), end = group_begin(vectors, g + 1);
      const int64_t last = std::min(L::kLanes, elements - (end - 1) * L::kLanes);
      with_columns(end - from, [&](auto c) {
        add_gradients<L, c>(weights, width, queries, rows + from * L::kLanes, row_size,
                            to + from * L::kLanes, stride, count, last);
      });
    }
  }

  TESSERA_INLINE void finish(const Panel& panel) {
    const int64_t query = block.first + panel.lane;
    unpack_columns<L>(room.dqueries + panel.lane * std::max(size, value_size),
                      panel.vectors * L::kLanes, panel.queries, f.sizes.size,
                      [&](int64_t i, int64_t e, V row, int64_t part) {
                        W* const to = f.dq.row(block.sample, head, query + i) + e;
                        if (f.add) row += load_row<L>(static_cast<const W*>(to), part);
                        store_row<L>(to, row, part);
                      });
  }
};

template <typename T>
void clear_gradients(const BackwardProblem<T>& f, int64_t sample, int64_t kv_head) {
  for (int64_t key = 0; key < f.sizes.keys; ++key) {
    std::fill_n(f.dk.row(sample, kv_head, key), f.sizes.size, Wide<T>{0});
    std::fill_n(f.dv.row(sample, kv_head, key), f.sizes.value_size, Wide<T>{0});
  }
}

template <typename L, typename T>
void run_backward(const BackwardProblem<T>& f, int64_t begin, int64_t end, std::byte* memory) {
  Room arrays(memory);
  BackwardRoom<L> room(f.sizes, arrays);
  const int64_t share = f.sizes.heads_of_kv();
  for (int64_t task = begin; task < end; ++task) {
    const int64_t sample = task / f.sizes.kv_heads;
    if (!f.add) clear_gradients(f, sample, task % f.sizes.kv_heads);
    for (int64_t head = task % f.sizes.kv_heads * share, last = head + share; head < last; ++head) {
      double dsink = 0;
      for (int64_t first = 0; first < f.sizes.queries; first += kBackwardQueries) {
        Block<L> block(f.sizes, f.mask, sample, first,
                       std::min(kBackwardQueries, f.sizes.queries - first));
        BackwardBlock<L, T> own{f,
                                room,
                                block,
                                head,
                                row_elements<L>(f.sizes.size),
                                row_elements<L>(f.sizes.value_size),
                                &dsink};
        own.run();
      }
      if (f.dsinks) {
        f.dsinks[sample * f.sizes.heads + head] += static_cast<typename L::W>(dsink);
      }
    }
  }
}

}  // namespace tessera::kernels::flash
