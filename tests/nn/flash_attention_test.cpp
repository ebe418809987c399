// The attention kernel against its definition, written with dense masks in float64.

#include "tessera/nn/attention/flash_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>
#include <string>

#include "tessera/nn/scalar_type.h"
#include "tests/nn/gradient_check.h"

namespace tessera {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

struct Case {
  int64_t samples = 1, heads = 1, kv_heads = 1, queries = 1, keys = 1, size = 8, value_size = 8;
  AttentionScores scores{.scale = 0.3, .sinks = {}};
  FlashPlaces places;
  bool sinks = false;
  double spread = 1;

  std::string text() const {
    std::string all;
    for (const int64_t n : {samples, heads, kv_heads, queries, keys, size, value_size,
                            scores.window, places.first_query, places.first_key}) {
      all += std::to_string(n) + " ";
    }
    return all + (places.causal ? "causal" : "all") + (sinks ? " sinks" : "") +
           (scores.soft_cap > 0 ? " cap" : "") +
           (places.document_begins.defined() ? " documents" : "");
  }
};

Case causal(int64_t length, int64_t size, int64_t heads = 2, int64_t kv_heads = 1) {
  Case c;
  c.samples = 2;
  c.heads = heads, c.kv_heads = kv_heads;
  c.queries = c.keys = length;
  c.size = c.value_size = size;
  c.scores.scale = 1 / std::sqrt(static_cast<double>(size));
  return c;
}

// Values of the inputs in [B, heads, L, D], in memory [B, L, heads, D].
struct Inputs {
  at::Tensor q, k, v, sinks, grad_out;

  explicit Inputs(const Case& c, at::ScalarType type = at::kDouble) {
    const auto values = [&](int64_t heads, int64_t length, int64_t size, double phase) {
      return sample_values({c.samples, length, heads, size}, phase).to(type).transpose(1, 2);
    };
    q = values(c.heads, c.queries, c.size, 1) * c.spread;
    k = values(c.kv_heads, c.keys, c.size, 2);
    v = values(c.kv_heads, c.keys, c.value_size, 3);
    grad_out = values(c.heads, c.queries, c.value_size, 4);
    if (c.sinks) sinks = sample_values({c.heads}, 5);
  }
};

at::Tensor visible(const Case& c) {  // [B, 1, L, K]
  const at::Tensor query = at::arange(c.queries).add(c.places.first_query).unsqueeze(1);
  const at::Tensor key = at::arange(c.keys).add(c.places.first_key).unsqueeze(0);
  at::Tensor seen = at::ones({c.samples, 1, c.queries, c.keys}, at::kBool);
  if (c.places.causal) seen = seen.logical_and(key <= query);
  if (c.scores.window > 0) seen = seen.logical_and(key > query - c.scores.window);
  if (c.places.document_begins.defined()) {
    seen = seen.logical_and(key >= c.places.document_begins.unsqueeze(1).unsqueeze(-1));
  }
  return seen;
}

struct Expected {
  at::Tensor out, lse, largest;
  at::Tensor q, k, v, sinks;  // gradients
};

Expected expected(const Case& c, const Inputs& from) {
  const auto leaf = [](const at::Tensor& x) {
    return x.to(at::kDouble).detach().clone().requires_grad_(true);
  };
  const at::Tensor q = leaf(from.q), k = leaf(from.k), v = leaf(from.v);
  const int64_t share = c.heads / c.kv_heads;
  const at::Tensor keys = k.repeat_interleave(share, 1), values = v.repeat_interleave(share, 1);
  at::Tensor scores = at::matmul(q, keys.transpose(-1, -2)) * c.scores.scale;
  if (c.scores.soft_cap > 0) scores = (scores / c.scores.soft_cap).tanh() * c.scores.soft_cap;
  const at::Tensor seen = visible(c);
  scores = scores.masked_fill(seen.logical_not(), kNone);
  Expected e;
  e.largest = scores.detach().amax({-2, -1});
  std::vector<at::Tensor> leaves{q, k, v};
  at::Tensor all = scores;
  if (c.sinks) {
    leaves.push_back(leaf(from.sinks));
    all =
        at::cat({scores, leaves[3].view({1, -1, 1, 1}).expand({c.samples, -1, c.queries, 1})}, -1);
  }
  const at::Tensor nothing = seen.any(-1, true).logical_not().expand({-1, c.heads, -1, -1});
  const at::Tensor lse = all.logsumexp(-1, true);
  const at::Tensor base = c.sinks ? lse : lse.masked_fill(nothing, 0);
  e.out = at::matmul((scores - base).exp(), values);
  e.lse = lse.detach().squeeze(-1);
  const auto grads = torch::autograd::grad({e.out}, leaves, {from.grad_out.to(at::kDouble)});
  e.out = e.out.detach();
  e.q = grads[0], e.k = grads[1], e.v = grads[2];
  if (c.sinks) e.sinks = grads[3];
  return e;
}

struct Got {
  FlashResult result;
  at::Tensor q, k, v, sinks;
};

Got computed(const Case& c, const Inputs& in, bool add = false) {
  AttentionScores scores = c.scores;
  scores.sinks = in.sinks;
  Got got;
  got.result = flash_forward(in.q, in.k, in.v, scores, c.places, /*with_largest=*/true);
  const auto start = [&](const at::Tensor& x) {  // what is not added to may hold anything
    return at::full(x.sizes(), add ? 0 : NAN, x.options().dtype(got.result.lse.scalar_type()));
  };
  got.q = start(in.q), got.k = start(in.k), got.v = start(in.v);
  got.sinks = flash_backward(in.grad_out, in.q, in.k, in.v, got.result.out, got.result.lse, scores,
                             c.places, got.q, got.k, got.v, add);
  return got;
}

void expect_same(const Got& a, const Got& b) {
  EXPECT_TRUE(at::equal(a.result.out, b.result.out));
  EXPECT_TRUE(at::equal(a.result.lse, b.result.lse));
  EXPECT_TRUE(at::equal(a.result.largest, b.result.largest));
  EXPECT_TRUE(at::equal(a.q, b.q));
  EXPECT_TRUE(at::equal(a.k, b.k));
  EXPECT_TRUE(at::equal(a.v, b.v));
}

void expect_close(const at::Tensor& got, const at::Tensor& want, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(got.sizes(), want.sizes()) << what;
  const at::Tensor wide = got.to(at::kDouble);
  EXPECT_TRUE(at::equal(wide == kNone, want == kNone)) << what;
  const at::Tensor finite = want.masked_fill(want == kNone, 0);
  const at::Tensor error = (wide.masked_fill(want == kNone, 0) - finite).abs();
  const double largest = std::max(finite.abs().max().item<double>(), 1.0);
  EXPECT_LE(error.max().item<double>(), tolerance * largest) << what;
}

void expect_right(const Case& c, at::ScalarType type, double tolerance, double rounded) {
  const Inputs in(c, type);
  const Got got = computed(c, in);
  const Expected want = expected(c, in);
  EXPECT_EQ(got.result.out.scalar_type(), type);
  EXPECT_EQ(got.q.scalar_type(), accumulation_type(type));
  expect_close(got.result.out, want.out, rounded, "out of " + c.text());
  expect_close(got.result.lse, want.lse, tolerance, "lse of " + c.text());
  expect_close(got.result.largest, want.largest, tolerance, "largest of " + c.text());
  expect_close(got.q, want.q, rounded, "dq of " + c.text());
  expect_close(got.k, want.k, rounded, "dk of " + c.text());
  expect_close(got.v, want.v, rounded, "dv of " + c.text());
  if (c.sinks) expect_close(got.sinks, want.sinks, 4 * rounded, "dsinks of " + c.text());
}

// In all types. The gradients of bfloat16 begin with a rounded result.
void expect_right(const Case& c) {
  expect_right(c, at::kDouble, 1e-13, 1e-13);
  expect_right(c, at::kFloat, 5e-6, 5e-6);
  expect_right(c, at::kBFloat16, 5e-6, 1e-2);
}

TEST(FlashAttention, HeadSizes) {
  for (const int64_t size : {1, 5, 8, 16, 24, 31, 32, 64, 80, 96, 128, 192, 256}) {
    expect_right(causal(70, size));
  }
}

TEST(FlashAttention, Lengths) {
  for (const int64_t length : {1, 2, 7, 16, 47, 48, 49, 96, 97, 193, 400}) {
    expect_right(causal(length, 8));
  }
}

TEST(FlashAttention, HeadsThatShareKeysAndValues) {
  expect_right(causal(60, 12, 6, 6));
  expect_right(causal(60, 12, 6, 2));
  expect_right(causal(60, 12, 6, 1));
}

TEST(FlashAttention, ValuesOfAnotherSize) {
  Case c = causal(100, 24);
  c.value_size = 40;
  expect_right(c);
  c.size = 33, c.value_size = 17;
  expect_right(c);
}

TEST(FlashAttention, Rectangles) {
  for (const auto& [queries, keys] : {std::pair{1, 1}, {1, 150}, {150, 1}, {201, 99}, {50, 300}}) {
    Case c = causal(queries, 16);
    c.keys = keys;
    c.places.causal = false;
    expect_right(c);
  }
}

// Queries that stand before, among and behind the keys; some see nothing.
TEST(FlashAttention, OffsetsOfQueriesToKeys) {
  for (const int64_t first_query : {0, 30, 95, 200}) {
    for (const int64_t window : {0, 40}) {
      Case c = causal(110, 16);
      c.keys = 70;
      c.places.first_query = first_query;
      c.places.first_key = 25;
      c.scores.window = window;
      expect_right(c);
    }
  }
}

TEST(FlashAttention, Windows) {
  for (const int64_t window : {1, 17, 48, 300, 1000}) {
    Case c = causal(310, 8);
    c.scores.window = window;
    expect_right(c);
  }
}

TEST(FlashAttention, Documents) {
  Case c = causal(300, 8, 4, 2);
  at::Tensor begins = at::zeros({2, 300}, at::kLong);
  for (const int64_t begin : {1, 2, 60, 61, 160, 299})
    begins[0].narrow(0, begin, 300 - begin).fill_(begin);
  begins[1].narrow(0, 150, 150).fill_(150);
  c.places.document_begins = begins;
  expect_right(c);
  c.scores.window = 30;
  expect_right(c);
}

TEST(FlashAttention, SinksAndCaps) {
  Case c = causal(130, 16, 4, 2);
  c.sinks = true;
  expect_right(c);
  c.scores.window = 20;
  expect_right(c);
  c.scores.soft_cap = 0.8;
  expect_right(c);
  c.sinks = false;
  expect_right(c);
  c.scores.soft_cap = 30;
  expect_right(c);
}

TEST(FlashAttention, ScoresFarFromZero) {
  Case c = causal(150, 16);
  c.spread = 300;
  const Inputs in(c);
  ASSERT_GT(expected(c, in).largest.abs().max().item<double>(), 300);
  expect_right(c, at::kDouble, 1e-12, 1e-12);
}

// Keys in two parts: the result of one is merged with the other, its gradients are added.
TEST(FlashAttention, PartsOfTheKeys) {
  for (const bool sinks : {false, true}) {
    Case c = causal(220, 16, 4, 2);
    c.sinks = sinks;
    const Inputs in(c);
    const Expected want = expected(c, in);
    const auto options = in.q.options();
    const at::Tensor out = at::zeros({2, 220, 4, 16}, options).transpose(1, 2);
    const at::Tensor lse = at::full({2, 4, 220}, kNone, options);
    if (sinks) lse.copy_(in.sinks.view({1, 4, 1}).expand({2, 4, 220}));
    const at::Tensor dq = at::zeros(in.q.sizes(), options), dk = at::zeros(in.k.sizes(), options),
                     dv = at::zeros(in.v.sizes(), options);
    const auto parts = {std::pair{0, 90}, {90, 130}};
    const auto places_of = [](int64_t begin) {
      FlashPlaces places;
      places.first_key = begin;
      return places;
    };
    for (const auto& [begin, count] : parts) {
      flash_merge(out, lse, in.q, in.k.narrow(2, begin, count), in.v.narrow(2, begin, count),
                  c.scores, places_of(begin));
    }
    expect_close(out, want.out, 1e-13, "out");
    expect_close(lse, want.lse, 1e-13, "lse");
    for (const auto& [begin, count] : parts) {
      flash_backward(in.grad_out, in.q, in.k.narrow(2, begin, count), in.v.narrow(2, begin, count),
                     out, lse, c.scores, places_of(begin), dq, dk.narrow(2, begin, count),
                     dv.narrow(2, begin, count), /*add=*/true);
    }
    expect_close(dq, want.q, 1e-13, "dq");
    expect_close(dk, want.k, 1e-13, "dk");
    expect_close(dv, want.v, 1e-13, "dv");
  }
}

TEST(FlashAttention, ThreadsDoNotMatter) {
  const int before = at::get_num_threads();
  const Case c = causal(500, 40, 6, 3);
  const Inputs in(c, at::kFloat);
  at::set_num_threads(1);
  const Got one = computed(c, in);
  expect_same(computed(c, in, /*add=*/true), one);  // to zeros
  for (const int threads : {2, 5}) {
    at::set_num_threads(threads);
    expect_same(computed(c, in), one);
  }
  at::set_num_threads(before);
}

// A part of the samples or of the kv heads with their queries gives the same bits.
TEST(FlashAttention, OtherSamplesAndHeadsDoNotMatter) {
  const Case c = causal(250, 24, 6, 3);
  const Inputs in(c, at::kFloat);
  const Got all = computed(c, in);
  const auto expect_part = [&](int64_t dimension, int64_t begin, int64_t share) {
    const auto part = [&](const at::Tensor& x, int64_t of) {
      return x.narrow(dimension, begin * of, of);
    };
    Inputs some = in;
    some.q = part(in.q, share), some.grad_out = part(in.grad_out, share);
    some.k = part(in.k, 1), some.v = part(in.v, 1);
    const Got own = computed(c, some);
    expect_same(own, {{part(all.result.out, share), part(all.result.lse, share),
                       part(all.result.largest, share)},
                      part(all.q, share),
                      part(all.k, 1),
                      part(all.v, 1),
                      {}});
  };
  for (const int64_t sample : {0, 1}) expect_part(0, sample, 1);
  for (const int64_t head : {0, 1, 2}) expect_part(1, head, 2);
}

// What is no number stays visible: it must not become a weight of zero.
TEST(FlashAttention, NotANumberIsHandedOn) {
  const Case c = causal(60, 8, 1, 1);
  Inputs in(c, at::kFloat);
  in.k[1][0][10][3] = std::numeric_limits<float>::quiet_NaN();
  const Got got = computed(c, in);
  EXPECT_FALSE(got.result.out[0].isnan().any().item<bool>());
  EXPECT_TRUE(got.result.out[1][0].narrow(0, 10, 50).isnan().all().item<bool>());
}

}  // namespace
}  // namespace tessera
