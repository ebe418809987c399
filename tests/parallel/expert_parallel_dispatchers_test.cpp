// Both dispatchers against the plain one: results, gradients, bytes.

#include "tessera/parallel/experts/expert_parallel_dispatchers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tessera/base/box.h"
#include "tessera/comm/threads/run_ranks.h"
#include "tessera/nn/experts/grouped_linear.h"
#include "tests/nn/gradient_check.h"

namespace tessera {
namespace {

constexpr int64_t kHidden = 6;
constexpr int64_t kExperts = 8;

// Expert ids [tokens, k] of a rank.
using Ids = std::function<at::Tensor(int rank, int64_t tokens, int64_t k)>;

at::Tensor spread_ids(int rank, int64_t tokens, int64_t k) {
  const at::Tensor scores = sample_values({tokens, kExperts}, 0.3 + rank);
  return std::get<1>(scores.topk(k, -1));
}

struct Outcome {
  std::vector<at::Tensor> outputs, x_grads, weight_grads;  // by rank
  at::Tensor matrix_grad;                                  // [experts, hidden, hidden]
  int64_t rows = 0;                                        // at all experts
};

int64_t tokens_of(int rank) {
  return 5 + rank % 3;  // ranks have unequal numbers of tokens
}

using MakeDispatcher = std::function<std::unique_ptr<TokenDispatcher>(const ProcessGroup& group)>;

// One matrix per expert stands for the expert.
Outcome evaluate(int ranks, int64_t k, const Ids& ids, const MakeDispatcher& make, bool weighted) {
  Outcome outcome;
  outcome.outputs.resize(static_cast<size_t>(ranks));
  outcome.x_grads.resize(static_cast<size_t>(ranks));
  outcome.weight_grads.resize(static_cast<size_t>(ranks));
  outcome.matrix_grad = at::zeros({kExperts, kHidden, kHidden}, at::kDouble);
  std::mutex mutex;
  run_ranks(ranks, [&](const ProcessGroup& group) {
    const int rank = group.rank();
    const auto place = static_cast<size_t>(rank);
    const int64_t tokens = tokens_of(rank);
    const auto dispatcher = make ? make(group) : std::make_unique<TokenDispatcher>();
    const Range own = make ? part_of(kExperts, ranks, rank) : Range{0, kExperts};
    const at::Tensor x = sample_values({tokens, kHidden}, 0.7 * rank).requires_grad_(true);
    at::Tensor w = sample_values({tokens, k}, 0.1 + rank).requires_grad_(true);
    const at::Tensor matrices = sample_values({kExperts, kHidden, kHidden}, 0.5)
                                    .slice(0, own.begin, own.end)
                                    .clone()
                                    .requires_grad_(true);
    const auto call = dispatcher->dispatch(x * x, ids(rank, tokens, k),
                                           weighted ? w * w : at::Tensor(), kExperts);
    const at::Tensor rows = grouped_linear(call->rows, matrices, call->rows_of_expert);
    const at::Tensor y = call->combine(rows.sin(), call->weights);
    const at::Tensor loss = (y * sample_values(y.sizes().vec(), 0.9 + rank)).sum();
    std::vector<at::Tensor> wanted{x, matrices};
    if (weighted) wanted.push_back(w);
    const auto grads = torch::autograd::grad({loss}, wanted);
    const std::lock_guard lock(mutex);
    outcome.outputs[place] = y.detach();
    outcome.x_grads[place] = grads[0];
    if (weighted) outcome.weight_grads[place] = grads[2];
    outcome.matrix_grad.slice(0, own.begin, own.end).add_(grads[1]);
    outcome.rows += call->rows.size(0);
  });
  return outcome;
}

void expect_equal(const Outcome& a, const Outcome& b, bool weighted) {
  const auto near = [](const at::Tensor& x, const at::Tensor& y) {
    return (x - y).abs().max().item<double>() <= 1e-13 * y.abs().max().item<double>();
  };
  for (size_t r = 0; r < a.outputs.size(); ++r) {
    EXPECT_TRUE(near(a.outputs[r], b.outputs[r])) << "output of rank " << r;
    EXPECT_TRUE(near(a.x_grads[r], b.x_grads[r])) << "gradient of x of rank " << r;
    if (weighted) {
      EXPECT_TRUE(near(a.weight_grads[r], b.weight_grads[r])) << "gradient of weights, " << r;
    }
  }
  EXPECT_TRUE(near(a.matrix_grad, b.matrix_grad)) << "gradients of the experts";
  EXPECT_EQ(a.rows, b.rows);
}

std::unique_ptr<TokenDispatcher> all_to_all_dispatcher(const ProcessGroup& group) {
  return std::make_unique<AllToAllDispatcher>(group);
}

NodeGroups nodes_of(const ProcessGroup& group, int node) {
  std::vector<std::vector<int>> rows, columns(static_cast<size_t>(node));
  for (int i = 0; i < group.size(); ++i) {
    if (i % node == 0) rows.emplace_back();
    rows.back().push_back(i);
    columns[static_cast<size_t>(i % node)].push_back(i);
  }
  return {group.split(rows, "node"), group.split(columns, "between"), group, false, {}};
}

MakeDispatcher node_dispatcher(int node, std::optional<bool> selective = {}) {
  return [=](const ProcessGroup& group) {
    auto groups = std::make_shared<NodeGroups>(nodes_of(group, node));
    groups->selective = selective;
    return std::make_unique<NodeDispatcher>(std::move(groups));
  };
}

struct Scene {
  std::string name;
  Ids ids;
  int64_t k;
};

class Dispatchers : public testing::TestWithParam<Scene> {};

TEST_P(Dispatchers, EqualThePlainOne) {
  const Scene& s = GetParam();
  for (const bool weighted : {true, false}) {
    const Outcome plain4 = evaluate(4, s.k, s.ids, nullptr, weighted);
    expect_equal(evaluate(4, s.k, s.ids, all_to_all_dispatcher, weighted), plain4, weighted);
    expect_equal(evaluate(4, s.k, s.ids, node_dispatcher(2), weighted), plain4, weighted);
    expect_equal(evaluate(4, s.k, s.ids, node_dispatcher(2, false), weighted), plain4, weighted);
    expect_equal(evaluate(4, s.k, s.ids, node_dispatcher(4), weighted), plain4, weighted);
    const Outcome plain8 = evaluate(8, s.k, s.ids, nullptr, weighted);
    expect_equal(evaluate(8, s.k, s.ids, all_to_all_dispatcher, weighted), plain8, weighted);
    expect_equal(evaluate(8, s.k, s.ids, node_dispatcher(2), weighted), plain8, weighted);
    expect_equal(evaluate(8, s.k, s.ids, node_dispatcher(4, true), weighted), plain8, weighted);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Routes, Dispatchers,
    testing::Values(Scene{"spread", spread_ids, 3},
                    Scene{"all_to_one_expert",
                          [](int, int64_t tokens, int64_t k) {
                            return at::full({tokens, k}, 5, at::kLong);
                          },
                          1},
                    Scene{"all_to_one_rank",
                          [](int, int64_t tokens, int64_t k) {
                            return at::arange(6, 6 + k, at::kLong).expand({tokens, k}).contiguous();
                          },
                          2},
                    Scene{"an_expert_twice_in_a_token",
                          [](int rank, int64_t tokens, int64_t k) {
                            at::Tensor ids = spread_ids(rank, tokens, k);
                            ids.select(1, 1).copy_(ids.select(1, 0));
                            return ids;
                          },
                          3}),
    [](const auto& info) { return info.param.name; });

// Bytes of the rows that leave a rank, there and back.
TEST(DispatcherBytes, AllToAllSendsWhatLeavesTheRank) {
  run_ranks(4, [](const ProcessGroup& group) {
    const int64_t k = 4;
    const int64_t tokens = tokens_of(group.rank());
    const at::Tensor ids = spread_ids(group.rank(), tokens, k);
    AllToAllDispatcher dispatcher(group);
    const auto call = dispatcher.dispatch(sample_values({tokens, kHidden}, 0.1), ids, {}, kExperts);
    const Range own = part_of(kExperts, 4, group.rank());
    const int64_t leave = ids.lt(own.begin).logical_or(ids.ge(own.end)).sum().item<int64_t>();
    const int64_t row = kHidden * 8;
    const int64_t counts = 8 * (kExperts - own.size());
    EXPECT_EQ(group.stats().operations.at("all_to_all").bytes, leave * row + counts);
    // The way back sends what had come from others.
    const int64_t before = group.stats().operations.at("all_to_all").bytes;
    call->combine(call->rows, {});
    at::Tensor both =
        at::tensor({leave, group.stats().operations.at("all_to_all").bytes - before}, at::kLong);
    group.all_reduce({both}).wait();
    EXPECT_EQ(both[1].item<int64_t>(), both[0].item<int64_t>() * row);
  });
}

TEST(DispatcherBytes, ATokenCrossesToANodeAtMostOnce) {
  run_ranks(4, [](const ProcessGroup& group) {
    const int64_t k = 4;
    const int64_t tokens = tokens_of(group.rank());
    const at::Tensor ids = spread_ids(group.rank(), tokens, k);
    const int64_t here = group.rank() / 2;
    const int64_t pairs = ids.div(kExperts / 2, "floor").ne(here).any(1).sum().item<int64_t>();
    const int64_t choices_that_cross =
        ids.div(kExperts / 2, "floor").ne(here).sum().item<int64_t>();
    const at::Tensor x = sample_values({tokens, kHidden}, 0.1);
    const int64_t beside = 8 + 8 * k * pairs;  // the count, and the ids of the choices
    for (const bool selective : {true, false}) {
      auto groups = std::make_shared<NodeGroups>(nodes_of(group, 2));
      groups->selective = selective;
      NodeDispatcher(groups).dispatch(x, ids, {}, kExperts);
      const int64_t bytes = groups->between.stats().operations.at("all_to_all").bytes;
      if (selective) {
        EXPECT_EQ(bytes, pairs * kHidden * 8 + beside);
      } else {
        EXPECT_EQ(bytes, tokens * kHidden * 8 + 8 + 8 * k * tokens);
      }
      EXPECT_LT(selective ? pairs : tokens, choices_that_cross) << "less than all-to-all sends";
    }
  });
}

// What must not pass unseen: the way back with the splits of the way there.
TEST(DispatcherFaults, ForwardSplitsOnTheWayBackAreRefused) {
  EXPECT_THROW(run_ranks(2,
                         [](const ProcessGroup& group) {
                           // Rank 0 sends one row to itself and three to rank 1, rank 1 two and
                           // two.
                           const std::vector<int64_t> sent = group.rank() == 0
                                                                 ? std::vector<int64_t>{1, 3}
                                                                 : std::vector<int64_t>{2, 2};
                           const std::vector<int64_t> received = group.rank() == 0
                                                                     ? std::vector<int64_t>{1, 2}
                                                                     : std::vector<int64_t>{3, 2};
                           at::Tensor rows = at::ones({received[0] + received[1], 2}, at::kDouble);
                           at::Tensor back = at::empty({sent[0] + sent[1], 2}, at::kDouble);
                           group.all_to_all(back, rows, sent, sent).wait();
                         }),
               std::exception);
}

}  // namespace
}  // namespace tessera
