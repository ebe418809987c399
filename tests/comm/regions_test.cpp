// Every region against a numeric derivative, in float64, with rows that divide by nothing.

#include "tessera/comm/regions.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <mutex>

#include "tessera/base/box.h"
#include "tessera/comm/threads/run_ranks.h"

namespace tessera {
namespace {

constexpr int64_t kColumns = 3;

// The inputs of all ranks -> the outputs of all ranks, and the derivatives of
// sum over ranks of sum(weight_r * sin(y_r)) as autograd finds them.
struct Result {
  std::vector<at::Tensor> gradients;
  double loss = 0;
};

using Region = std::function<at::Tensor(const at::Tensor&, const ProcessGroup&)>;

at::Tensor weight_of(const at::Tensor& y, int rank) {
  return at::arange(y.numel(), at::kDouble).mul(0.7).add(1.3 * rank + 0.2).cos().view_as(y);
}

Result evaluate(const std::vector<at::Tensor>& inputs, const Region& region) {
  const int n = static_cast<int>(inputs.size());
  Result result;
  result.gradients.resize(n);
  std::vector<double> losses(n);
  run_ranks(n, [&](const ProcessGroup& group) {
    const int rank = group.rank();
    const at::Tensor x = inputs[rank].clone().requires_grad_(true);
    // Around the region something with a derivative of its own, and a gradient not contiguous.
    const at::Tensor y = region(x * x, group);
    const at::Tensor weight = weight_of(y, rank);
    const at::Tensor loss = (weight.t().contiguous().t() * y.sin()).sum();
    losses[rank] = loss.item<double>();
    loss.backward();
    result.gradients[rank] = x.grad().clone();
  });
  for (int r = 0; r < n; ++r) result.loss += losses[r];
  return result;
}

void check(const std::vector<at::Tensor>& inputs, const Region& region) {
  constexpr double kStep = 1e-5;
  const Result result = evaluate(inputs, region);
  for (size_t rank = 0; rank < inputs.size(); ++rank) {
    for (int64_t i = 0; i < inputs[rank].numel(); ++i) {
      const auto moved = [&](double step) {
        std::vector<at::Tensor> changed;
        for (size_t r = 0; r < inputs.size(); ++r) {
          changed.push_back(inputs[r].clone());
          if (r == rank) changed.back().view(-1)[i] += step;
        }
        return evaluate(changed, region).loss;
      };
      const double numeric = (moved(kStep) - moved(-kStep)) / (2 * kStep);
      const double exact = result.gradients[rank].view(-1)[i].item<double>();
      ASSERT_NEAR(exact, numeric, 1e-8) << "rank " << rank << " element " << i;
    }
  }
}

at::Tensor input(int64_t rows, int rank) {
  return at::arange(rows * kColumns, at::kDouble).mul(0.31).add(rank).sin().view({rows, kColumns});
}

class Regions : public testing::TestWithParam<int> {
 protected:
  static constexpr int64_t kRows = 5;
  int world() const { return GetParam(); }
  // Rank r's rows of kRows.
  std::vector<at::Tensor> cut_inputs() const {
    std::vector<at::Tensor> inputs;
    for (int r = 0; r < world(); ++r) {
      inputs.push_back(input(part_of(kRows, world(), r).size(), r));
    }
    return inputs;
  }
  std::vector<at::Tensor> whole_inputs() const {
    std::vector<at::Tensor> inputs;
    for (int r = 0; r < world(); ++r) inputs.push_back(input(kRows, r));
    return inputs;
  }
};

TEST_P(Regions, GatherFromSp) {
  check(cut_inputs(), [](const at::Tensor& x, const ProcessGroup& group) {
    return gather_from_sp(x, kRows, group);
  });
}

TEST_P(Regions, ScatterToSp) { check(whole_inputs(), scatter_to_sp); }

TEST_P(Regions, AllToAll) {
  const auto rows_of = [](int from, int to) { return int64_t{(2 * from + 3 * to + 1) % 3}; };
  std::vector<at::Tensor> inputs;
  for (int r = 0; r < world(); ++r) {
    int64_t rows = 0;
    for (int peer = 0; peer < world(); ++peer) rows += rows_of(r, peer);
    inputs.push_back(input(rows, r));
  }
  check(inputs, [&](const at::Tensor& x, const ProcessGroup& group) {
    std::vector<int64_t> in, out;
    for (int peer = 0; peer < group.size(); ++peer) {
      in.push_back(rows_of(group.rank(), peer));
      out.push_back(rows_of(peer, group.rank()));
    }
    return all_to_all(x, out, in, group);
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, Regions, testing::Values(1, 2, 3, 4));

TEST(Regions, ARankWithoutGradientTakesPart) {
  run_ranks(2, [](const ProcessGroup& group) {
    const at::Tensor x = at::ones({2, 1}, at::kDouble).requires_grad_(true);
    const at::Tensor y = gather_from_sp(x, 4, group);
    // On rank 1 the sum does not reach y but through a product with nothing.
    const at::Tensor loss = group.rank() == 0 ? y.sum() : (y * 0).sum();
    loss.backward();
    EXPECT_TRUE(at::equal(x.grad(), at::ones({2, 1}, at::kDouble)));
  });
}

TEST(Regions, NothingIsRecordedWhereNoGradientIsAsked) {
  run_ranks(2, [](const ProcessGroup& group) {
    const at::Tensor x = at::ones({2, 1}, at::kDouble).requires_grad_(true);
    EXPECT_FALSE(gather_from_sp(x.detach(), 4, group).requires_grad());
    const at::NoGradGuard no_grad;
    EXPECT_FALSE(gather_from_sp(x, 4, group).requires_grad());
  });
}

}  // namespace
}  // namespace tessera
