// Hyper-connections: against the plain loops, and gradients by differences.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/nn/streams/hyper_connection.h"
#include "tessera/nn/streams/sinkhorn.h"
#include "tests/nn/gradient_check.h"

namespace tessera {
namespace {

Weight leaf(const at::Tensor& value) {
  Weight weight;
  weight.dtype = value.scalar_type();
  weight.parts.emplace_back();
  weight.value = value;
  return weight;
}

// T 5 tokens, N 3 streams, H 4.
HyperConnection connection_of(const std::vector<at::Tensor>& weights) {
  HyperConnection connection;
  connection.fn = leaf(weights[0]);
  connection.base = leaf(weights[1]);
  connection.scale = leaf(weights[2]);
  connection.streams = 3;
  connection.iterations = 4;
  return connection;
}

std::vector<at::Tensor> sample_weights() {
  return {sample_values({15, 12}, 0.4) * 0.5, sample_values({15}, 1.1), sample_values({3}, 0.2)};
}

TEST(Streams, SinkhornGivesColumnsAndRowsOfSumOne) {
  const at::Tensor made = sinkhorn(sample_values({7, 4, 4}, 0.3) * 2, 40, 1e-6);
  const at::Tensor ones = at::ones({7, 4}, at::kDouble);
  EXPECT_TRUE(at::allclose(made.sum(1), ones, 0, 1e-5));
  EXPECT_TRUE(at::allclose(made.sum(2), ones, 0, 1e-5));
}

TEST(Streams, OneIterationTouchesColumnsAlone) {
  const at::Tensor logits = sample_values({2, 3, 3}, 0.3);
  const at::Tensor soft = logits.softmax(-1) + 1e-6;
  const at::Tensor want = soft / (soft.sum(1, true) + 1e-6);
  EXPECT_TRUE(at::equal(sinkhorn(logits, 1, 1e-6), want));
  EXPECT_TRUE(at::equal(sinkhorn(logits, 0, 1e-6), want));
}

TEST(Streams, SinkhornGradientByDifferences) {
  expect_gradients_by_differences(
      [](const std::vector<at::Tensor>& x) { return sinkhorn(x[0], 5, 1e-3); },
      {sample_values({2, 3, 3}, 0.7)});
}

TEST(Streams, ReadsAndWritesAsTheFormulaSays) {
  const HyperConnection connection = connection_of(sample_weights());
  const at::Tensor x = sample_values({5, 12}, 0.9), y = sample_values({5, 4}, 0.1);
  const HyperConnection::Site site = connection.open(x);
  const at::Tensor made = connection.close(x, y, site).view({5, 3, 4});
  const at::Tensor old = x.view({5, 3, 4});
  const at::Tensor normed = x / (x.square().mean(1, true) + 1e-6).sqrt();
  const at::Tensor z = normed.matmul(connection.fn.value.t());
  for (int64_t t = 0; t < 5; ++t) {
    at::Tensor collapsed = at::zeros({4}, at::kDouble);
    for (int64_t i = 0; i < 3; ++i) {
      const at::Tensor pre =
          (z[t][i] * connection.scale.value[0] + connection.base.value[i]).sigmoid() + 1e-6;
      collapsed += pre * old[t][i];
    }
    EXPECT_TRUE(at::allclose(site.collapsed_TH[t], collapsed, 1e-12, 1e-12));
    for (int64_t j = 0; j < 3; ++j) {
      const at::Tensor post =
          2 * (z[t][3 + j] * connection.scale.value[1] + connection.base.value[3 + j]).sigmoid();
      at::Tensor want = post * y[t];
      for (int64_t i = 0; i < 3; ++i) want = want + site.comb_TNN[t][i][j] * old[t][i];
      EXPECT_TRUE(at::allclose(made[t][j], want, 1e-12, 1e-12));
    }
  }
}

TEST(Streams, GradientsByDifferences) {
  std::vector<at::Tensor> inputs = sample_weights();
  inputs.push_back(sample_values({2, 12}, 0.9));
  inputs.push_back(sample_values({2, 4}, 0.1));
  expect_gradients_by_differences(
      [](const std::vector<at::Tensor>& x) {
        const HyperConnection connection = connection_of(x);
        const auto site = connection.open(x[3]);
        return at::cat({connection.close(x[3], x[4], site), site.collapsed_TH}, 1);
      },
      inputs);
}

TEST(Streams, HeadGradientsByDifferences) {
  expect_gradients_by_differences(
      [](const std::vector<at::Tensor>& x) {
        StreamHead head;
        head.fn = leaf(x[0]), head.base = leaf(x[1]), head.scale = leaf(x[2]);
        return head.forward(x[3]);
      },
      {sample_values({3, 12}, 0.4) * 0.5, sample_values({3}, 1.1), sample_values({1}, 0.2),
       sample_values({2, 12}, 0.9)});
}

TEST(Streams, BeginAsCopies) {
  const at::Tensor x = sample_values({2, 3}, 0.5);
  EXPECT_TRUE(at::equal(as_streams(x, 2), at::cat({x, x}, 1)));
}

}  // namespace
}  // namespace tessera
