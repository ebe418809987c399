// Attention over ranks that hold pieces of every row, against a float64 softmax over whole rows:
// outputs and the gradients of q, k and v, scores up to +-200.

#include "tessera/parallel/context/context_attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "tessera/comm/memory.h"
#include "tessera/comm/threads/run_ranks.h"
#include "tessera/data/token_split.h"

namespace tessera {
namespace {

constexpr int64_t kHeads = 8;
constexpr int64_t kSize = 8;

using Ends = std::vector<std::vector<int64_t>>;  // of the documents of every row
using RowPieces = std::vector<std::vector<Pieces>>;

// inner ranks that trade heads, outer between which keys travel.
struct Grid {
  std::string name;
  int outer;
  int inner;
  KeyExchange exchange;
  bool async;
};

const std::vector<Grid> kGrids = {
    {"colossal_ring", 4, 1, KeyExchange::kRing, false},
    {"colossal_gathered", 4, 1, KeyExchange::kAllGather, false},
    {"ulysses", 1, 4, KeyExchange::kAuto, false},
    {"ulysses_async", 1, 4, KeyExchange::kAuto, true},
    {"hybrid_ring", 2, 2, KeyExchange::kRing, false},
    {"hybrid_ring_async", 2, 2, KeyExchange::kRing, true},
    {"hybrid_gathered_async", 2, 2, KeyExchange::kAllGather, true},
};

// [R, S, ...] of whole rows.
struct Whole {
  at::Tensor q, k, v, out, seed, dq, dk, dv;
};

at::Tensor dense_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const Ends& ends) {
  const int64_t rows = q.size(0), s = q.size(1), copies = q.size(2) / k.size(2);
  at::Tensor visible = at::zeros({rows, 1, s, s}, at::kBool);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t begin = 0;
    for (const int64_t end : ends[static_cast<size_t>(row)]) {
      visible[row][0].slice(0, begin, end).slice(1, begin, end).fill_(true);
      begin = end;
    }
  }
  visible = visible.tril();
  const at::Tensor scores =
      at::einsum("rqnd,rknd->rnqk", {q, k.repeat_interleave(copies, 2)})
          .masked_fill(visible.logical_not(), -std::numeric_limits<double>::infinity());
  return at::einsum("rnqk,rknd->rqnd", {scores.softmax(-1), v.repeat_interleave(copies, 2)});
}

Whole make_whole(int64_t s, int64_t kv_heads, const Ends& ends) {
  const auto rows = static_cast<int64_t>(ends.size());
  at::manual_seed(7);
  const auto options = at::TensorOptions().dtype(at::kDouble);
  Whole w;
  w.q = (at::rand({rows, s, kHeads, kSize}, options) - 0.5) * 20;
  w.k = (at::rand({rows, s, kv_heads, kSize}, options) - 0.5) * 20;
  w.v = at::randn({rows, s, kv_heads, kSize}, options);
  for (at::Tensor* x : {&w.q, &w.k, &w.v}) x->set_requires_grad(true);
  w.out = dense_attention(w.q, w.k, w.v, ends);
  w.seed = at::randn(w.out.sizes(), options);
  const auto grads = torch::autograd::grad({w.out}, {w.q, w.k, w.v}, {w.seed});
  w.dq = grads[0];
  w.dk = grads[1];
  w.dv = grads[2];
  for (at::Tensor* x : {&w.q, &w.k, &w.v, &w.out}) *x = x->detach();
  return w;
}

// As the loader cuts: rows of the grid by `balance`, inside one in equal runs.
RowPieces cut_rows(int64_t s, const Ends& ends, const Grid& grid, TokenBalance balance) {
  RowPieces rows;
  for (const auto& of_row : ends) {
    std::vector<Pieces> ranks;
    for (const Pieces& part : split_row(s, of_row, grid.outer, balance)) {
      for (Pieces& run : split_pieces(part, grid.inner)) ranks.push_back(std::move(run));
    }
    rows.push_back(std::move(ranks));
  }
  return rows;
}

// The tokens of `rank`, row after row: [T, heads, D].
at::Tensor take(const at::Tensor& x_RSND, const RowPieces& pieces, int rank) {
  std::vector<at::Tensor> parts;
  for (size_t row = 0; row < pieces.size(); ++row) {
    for (const Range& piece : pieces[row][static_cast<size_t>(rank)]) {
      parts.push_back(x_RSND[static_cast<int64_t>(row)].slice(0, piece.begin, piece.end));
    }
  }
  return at::cat(parts).contiguous();
}

ContextAttention make_attention(const Grid& grid, const ProcessGroup& world) {
  std::vector<std::vector<int>> rows(static_cast<size_t>(grid.outer));
  std::vector<std::vector<int>> columns(static_cast<size_t>(grid.inner));
  for (int rank = 0; rank < world.size(); ++rank) {
    rows[static_cast<size_t>(rank / grid.inner)].push_back(rank);
    columns[static_cast<size_t>(rank % grid.inner)].push_back(rank);
  }
  ContextAttention attention;
  attention.scale = 1.0;
  attention.inner = world.split(rows, "inner");
  attention.outer = world.split(columns, "outer");
  attention.exchange = grid.exchange;
  attention.async = grid.async;
  return attention;
}

LayerContext make_context(int64_t s, const Ends& ends, const RowPieces& pieces) {
  LayerContext context;
  context.rows = static_cast<int64_t>(ends.size());
  context.seq_length = s;
  context.pieces = pieces;
  for (const auto& of_row : ends) {
    if (of_row.size() > 1) context.document_ends = ends;
  }
  return context;
}

void expect_near(const at::Tensor& got, const at::Tensor& want, const char* what, int rank) {
  ASSERT_TRUE(got.isfinite().all().item<bool>()) << what << " of rank " << rank;
  const double scale = std::max(1.0, want.abs().max().item<double>());
  EXPECT_LE((got - want).abs().max().item<double>(), 1e-12 * scale) << what << " of rank " << rank;
}

void expect_exact(int64_t s, int64_t kv_heads, const Ends& ends, const Grid& grid,
                  TokenBalance balance) {
  SCOPED_TRACE(testing::Message() << kv_heads << " kv heads, balance "
                                  << static_cast<int>(balance));
  const Whole whole = make_whole(s, kv_heads, ends);
  const RowPieces pieces = cut_rows(s, ends, grid, balance);
  run_ranks(grid.outer * grid.inner, [&](const ProcessGroup& world) {
    const int rank = world.rank();
    ContextAttention attention = make_attention(grid, world);
    const LayerContext context = make_context(s, ends, pieces);
    std::vector<at::Tensor> in;
    for (const at::Tensor& x : {whole.q, whole.k, whole.v}) {
      in.push_back(take(x, pieces, rank).requires_grad_(true));
    }
    // Offered as a projection's outputs: not leaves.
    const auto call = attention.begin(context);
    call->offer(AttentionInput::kQuery, in[0] * 1.0);
    call->offer(AttentionInput::kKey, in[1] * 1.0);
    call->offer(AttentionInput::kValue, in[2] * 1.0);
    const at::Tensor out = call->attend();
    const auto grads = torch::autograd::grad({out}, in, {take(whole.seed, pieces, rank)});
    expect_near(out.detach(), take(whole.out, pieces, rank), "output", rank);
    expect_near(grads[0], take(whole.dq, pieces, rank), "dq", rank);
    expect_near(grads[1], take(whole.dk, pieces, rank), "dk", rank);
    expect_near(grads[2], take(whole.dv, pieces, rank), "dv", rank);
  });
}

constexpr int64_t kLength = 64;  // four slices of 16

struct Scene {
  std::string name;
  Ends ends;
};

std::vector<int64_t> every_token() {
  std::vector<int64_t> ends(kLength);
  std::iota(ends.begin(), ends.end(), 1);
  return ends;
}

const std::vector<Scene> kScenes = {
    {"causal", {{64}, {64}}},
    {"inside_one_slice", {{18, 30, 64}, {5, 9, 64}}},
    {"one_covers_all", {{64}, {10, 64}}},
    {"one_token_long", {{7, 8, 31, 32, 33, 64}, {16, 17, 64}}},
    {"ends_at_both_ends", {{1, 64}, {63, 64}}},
    {"whole_slices", {{16, 32, 48, 64}, {32, 64}}},
    {"every_token_alone", {every_token(), {64}}},
};

class ContextAttentionExact : public testing::TestWithParam<std::tuple<Grid, Scene>> {};

TEST_P(ContextAttentionExact, EqualsASoftmaxInFloat64) {
  const auto& [grid, scene] = GetParam();
  expect_exact(kLength, 2, scene.ends, grid, TokenBalance::kByWork);
  if (grid.outer == 1) return;
  expect_exact(kLength, 2, scene.ends, grid, TokenBalance::kHeadTail);
  expect_exact(kLength, 2, scene.ends, grid, TokenBalance::kContiguous);
}

INSTANTIATE_TEST_SUITE_P(Methods, ContextAttentionExact,
                         testing::Combine(testing::ValuesIn(kGrids), testing::ValuesIn(kScenes)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_" + std::get<1>(info.param).name;
                         });

TEST(ContextAttention, AnyNumberOfKvHeads) {
  for (const Grid& grid : kGrids) {
    SCOPED_TRACE(grid.name);
    for (const int64_t kv_heads : {8, 4, 1}) {
      for (const Ends& ends : {Ends{{64}, {64}}, Ends{{18, 30, 64}, {63, 64}}}) {
        expect_exact(kLength, kv_heads, ends, grid, TokenBalance::kHeadTail);
      }
    }
  }
}

TEST(ContextAttention, SequencesAsShortAsTheDegree) {
  for (const Grid& grid : kGrids) {
    SCOPED_TRACE(grid.name);
    expect_exact(4, 2, {{4}, {1, 4}}, grid, TokenBalance::kContiguous);
    expect_exact(4, 2, {{4}, {1, 4}}, grid, TokenBalance::kByWork);
    expect_exact(8, 2, {{8}, {3, 8}}, grid, TokenBalance::kHeadTail);
  }
}

// A window of 20 places of 64, sinks, a cap, and values of another size than keys.
TEST(ContextAttention, WindowsSinksCapsAndValuesOfAnotherSize) {
  constexpr int64_t kWindow = 20, kValueSize = 5;
  constexpr double kCap = 30;
  const Ends ends{{64}, {18, 64}};
  at::manual_seed(3);
  const auto options = at::TensorOptions().dtype(at::kDouble);
  std::vector<at::Tensor> whole{
      at::randn({2, 64, kHeads, kSize}, options) * 4, at::randn({2, 64, 2, kSize}, options) * 4,
      at::randn({2, 64, 2, kValueSize}, options), at::randn({kHeads}, options) * 4};
  for (at::Tensor& x : whole) x.requires_grad_(true);
  const at::Tensor place = at::arange(64);
  at::Tensor seen = place.unsqueeze(0).gt(place.unsqueeze(1) - kWindow).tril().repeat({2, 1, 1, 1});
  seen[1][0].slice(0, 18).slice(1, 0, 18).fill_(false);
  const at::Tensor products =
      at::einsum("rqnd,rknd->rnqk", {whole[0], whole[1].repeat_interleave(4, 2)});
  const at::Tensor scores =
      ((products / kCap).tanh() * kCap)
          .masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity());
  const at::Tensor sink = whole[3].view({1, -1, 1, 1}).expand({2, kHeads, 64, 1});
  const at::Tensor weights = at::cat({scores, sink}, -1).softmax(-1).narrow(-1, 0, 64);
  const at::Tensor want =
      at::einsum("rnqk,rknd->rqnd", {weights, whole[2].repeat_interleave(4, 2)});
  const at::Tensor seed = at::randn(want.sizes(), options);
  const auto gradients = torch::autograd::grad({want}, whole, {seed});

  for (const Grid& grid : kGrids) {
    SCOPED_TRACE(grid.name);
    const RowPieces pieces = cut_rows(64, ends, grid, TokenBalance::kContiguous);
    std::vector<at::Tensor> of_sinks(4);
    run_ranks(4, [&](const ProcessGroup& world) {
      const int rank = world.rank();
      ContextAttention attention = make_attention(grid, world);
      attention.window = kWindow;
      attention.soft_cap = kCap;
      attention.sinks.parts.emplace_back();
      attention.sinks.value = whole[3].detach().clone().requires_grad_(true);
      const LayerContext context = make_context(64, ends, pieces);
      std::vector<at::Tensor> in;
      for (size_t i = 0; i < 3; ++i) {
        in.push_back(take(whole[i].detach(), pieces, rank).requires_grad_(true));
      }
      const auto call = attention.begin(context);
      call->offer(AttentionInput::kQuery, in[0] * 1.0);
      call->offer(AttentionInput::kKey, in[1] * 1.0);
      call->offer(AttentionInput::kValue, in[2] * 1.0);
      const at::Tensor out = call->attend();
      in.push_back(attention.sinks.value);
      const auto got = torch::autograd::grad({out}, in, {take(seed, pieces, rank)});
      expect_near(out.detach(), take(want.detach(), pieces, rank), "output", rank);
      for (size_t i = 0; i < 3; ++i) {
        expect_near(got[i], take(gradients[i], pieces, rank), "gradient", rank);
      }
      of_sinks[static_cast<size_t>(rank)] = got[3];
    });
    expect_near(at::stack(of_sinks).sum(0), gradients[3], "gradient of the sinks", 0);
  }
}

TEST(ContextAttention, ThePlannedScoresAreFarFromZero) {
  const Whole w = make_whole(kLength, 8, {{64}, {64}});
  EXPECT_GT(at::einsum("rqnd,rknd->rnqk", {w.q, w.k}).abs().max().item<double>(), 200.0);
}

// Most bytes of a rank in a forward and backward pass around a ring.
int64_t peak_of_a_ring(int ranks, int64_t s) {
  const Grid ring{"ring", ranks, 1, KeyExchange::kRing, false};
  const Ends ends{{s}};
  const RowPieces pieces = cut_rows(s, ends, ring, TokenBalance::kHeadTail);
  std::vector<int64_t> peaks(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](const ProcessGroup& world) {
    ContextAttention attention = make_attention(ring, world);
    const LayerContext context = make_context(s, ends, pieces);
    world.barrier();
    reset_peak_memory(world.rank());
    const int64_t before = memory_use(world.rank()).current;
    std::vector<at::Tensor> in;
    for (int i = 0; i < 3; ++i) in.push_back(at::ones({s / ranks, 1, kSize}).requires_grad_(true));
    const auto call = attention.begin(context);
    call->offer(AttentionInput::kQuery, in[0]);
    call->offer(AttentionInput::kKey, in[1]);
    call->offer(AttentionInput::kValue, in[2]);
    const at::Tensor out = call->attend();
    torch::autograd::grad({out}, in, {at::ones_like(out)});
    peaks[static_cast<size_t>(world.rank())] = memory_use(world.rank()).peak - before;
  });
  return *std::max_element(peaks.begin(), peaks.end());
}

// No tensor of length x length, forward or backward.
TEST(ContextAttentionMemory, GrowsLinearlyWithTheLength) {
  const int64_t half = peak_of_a_ring(4, 16384), whole = peak_of_a_ring(4, 32768);
  EXPECT_LT(static_cast<double>(whole), 2.2 * static_cast<double>(half));
  constexpr int64_t kOneTensor = 32768 / 4 * kSize * 4;
  EXPECT_LT(whole, 64 * kOneTensor);
}

}  // namespace
}  // namespace tessera
