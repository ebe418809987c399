#include "tessera/parallel/tensor/overlapped_products.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tessera/comm/regions.h"
#include "tessera/parallel/tensor/gathered_linear.h"
#include "tests/comm/process_ranks.h"

namespace tessera::test {
namespace {

struct Case {
  Transport transport;
  int ranks;
};

class OverlappedProducts : public testing::TestWithParam<Case> {};

at::Tensor values(std::vector<int64_t> sizes, double seed) {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  return at::sin(at::arange(count, at::kDouble) * 0.7 + seed).view(sizes);
}

at::Tensor leaf(const at::Tensor& x) { return x.detach().clone().set_requires_grad(true); }

void expect_near(const at::Tensor& a, const at::Tensor& b) {
  ASSERT_TRUE(a.sizes() == b.sizes()) << a.sizes() << " and " << b.sizes();
  EXPECT_LE((a - b).abs().max().item<double>(), 1e-12 * b.norm().item<double>());
}

constexpr int64_t kTokens = 6, kIn = 5, kOut = 4;  // tokens of a rank

TEST_P(OverlappedProducts, AColumnProductIsThatOfTheGatheredInput) {
  for (const bool with_bias : {false, true}) {
    run_process_ranks(GetParam().ranks, GetParam().transport, [&](const ProcessGroup& tp) {
      const at::Tensor x = values({kTokens, kIn}, tp.rank());
      const at::Tensor w = values({kOut, kIn}, 10 + tp.rank());
      const at::Tensor b = values({kOut}, 20 + tp.rank());
      const at::Tensor grad = values({kTokens * tp.size(), kOut}, 30 + tp.rank());
      const auto run = [&](bool overlap) {
        std::vector<at::Tensor> in{leaf(x), leaf(w)};
        if (with_bias) in.push_back(leaf(b));
        const at::Tensor bias = with_bias ? in[2] : at::Tensor();
        const at::Tensor y = overlap ? overlapped_column_product(in[0], in[1], bias, tp)
                                     : GatheredInput(in[0], tp).linear(in[1], bias);
        std::vector<at::Tensor> result = torch::autograd::grad({y}, in, {grad});
        result.push_back(y.detach());
        return result;
      };
      const auto whole = run(false), cut = run(true);
      ASSERT_EQ(cut.size(), with_bias ? 4u : 3u);
      for (size_t i = 0; i < cut.size(); ++i) expect_near(cut[i], whole[i]);
    });
  }
}

TEST_P(OverlappedProducts, ARowProductIsThatOfTheReducedOutput) {
  run_process_ranks(GetParam().ranks, GetParam().transport, [](const ProcessGroup& tp) {
    const at::Tensor x = values({kTokens * tp.size(), kIn}, tp.rank());
    const at::Tensor w = values({kOut, kIn}, 10 + tp.rank());
    const at::Tensor grad = values({kTokens, kOut}, 30 + tp.rank());
    const auto run = [&](bool overlap) {
      const std::vector<at::Tensor> in{leaf(x), leaf(w)};
      const at::Tensor y = overlap ? overlapped_row_product(in[0], in[1], tp)
                                   : scatter_to_sp(at::linear(in[0], in[1]), tp);
      std::vector<at::Tensor> result = torch::autograd::grad({y}, in, {grad});
      result.push_back(y.detach());
      return result;
    };
    const auto whole = run(false), cut = run(true);
    for (size_t i = 0; i < cut.size(); ++i) expect_near(cut[i], whole[i]);
  });
}

// Forward and backward send what the gather, the gather again and the reduction send.
TEST_P(OverlappedProducts, SendTheSameBytes) {
  run_process_ranks(GetParam().ranks, GetParam().transport, [](const ProcessGroup& world) {
    const auto bytes = [&](bool overlap) {
      const ProcessGroup tp = world.alias("tp");
      const at::Tensor x = leaf(values({kTokens, kIn}, 0)), w = leaf(values({kOut, kIn}, 1));
      const at::Tensor y =
          overlap ? overlapped_column_product(x, w, {}, tp) : GatheredInput(x, tp).linear(w, {});
      torch::autograd::grad({y}, {x, w}, {at::ones_like(y)});
      return tp.stats().total_bytes();
    };
    EXPECT_EQ(bytes(true), bytes(false));
    EXPECT_EQ(bytes(true), 3 * (world.size() - 1) * kTokens * kIn * 8);
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, OverlappedProducts,
                         testing::Values(Case{Transport::kSharedMemory, 2},
                                         Case{Transport::kSharedMemory, 4},
                                         Case{Transport::kGloo, 3}, Case{Transport::kLocal, 3}),
                         [](const testing::TestParamInfo<Case>& info) {
                           return transport_name(info.param.transport) +
                                  std::to_string(info.param.ranks);
                         });

}  // namespace
}  // namespace tessera::test
