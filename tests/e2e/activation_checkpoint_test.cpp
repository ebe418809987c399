#include "tessera/parallel/activation_checkpoint.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <set>

#include "tessera/comm/threads/run_ranks.h"
#include "tessera/parallel/parallelize.h"
#include "tessera/rules/derive.h"
#include "tests/e2e/layout.h"

namespace tessera {
namespace {

const auto kDouble = at::TensorOptions().dtype(at::kDouble);

// The configuration tells the modules without building a layer; they must be those of the layers.
TEST(LayerModules, AreThoseOfTheLayers) {
  for (const char* name : {"llama_sgd64", "qwen3_tied64", "qwen3_moe_aux64", "deepseek_v3_64"}) {
    const Config config = test::load_case(name, {}, 1);
    std::vector<int64_t> layers;
    for (int64_t i = 0; i < config.model.num_hidden_layers; ++i) layers.push_back(i);
    const auto decoder = build_decoder(config.model, layers, true, true);
    for (const auto& layer : decoder->layers) {
      std::vector<LayerModule> built;
      for (const ModuleCall* call : layer->modules()) built.push_back(call->module);
      EXPECT_EQ(modules_of_layer(config.model, layer->index), built) << name;
    }
  }
}

TEST(ActivationCheckpoint, ParentsCoverTheirChildren) {
  const Config config =
      test::load_case("llama_sgd64",
                      {"recompute={mode: select, full_recompute_layer: ['3'], "
                       "select_module: {'mlp.*': ['0', '3'], self_attn.o_proj: ['0-1']}}"},
                      1);
  const auto decoder = build_decoder(config.model, {0, 1, 2, 3}, false, false);
  activation_checkpoint(*decoder, RecomputePlan(config));
  const auto wrapped = [&](size_t layer) {
    std::vector<LayerModule> modules;
    for (const ModuleCall* call : decoder->layers[layer]->modules()) {
      if (call->wrapper) modules.push_back(call->module);
    }
    return modules;
  };
  EXPECT_EQ(wrapped(0), (std::vector{LayerModule::kOutput, LayerModule::kMlp}));
  EXPECT_EQ(wrapped(1), std::vector{LayerModule::kOutput});
  EXPECT_TRUE(wrapped(2).empty());
  EXPECT_TRUE(wrapped(3).empty());  // recomputed as a whole
}

TEST(ActivationCheckpoint, WholeLayersAreRecomputedCalls) {
  const Config config = test::load_case(
      "deepseek_v3_64",
      {"checkpoint.load_path=''", "model.num_nextn_predict_layers=1", "model.mtp_loss_factor=0.3",
       "recompute={mode: full, full_recompute_layer: ['1-2', '4']}"},
      1);
  run_ranks(1, [&](const ProcessGroup& world) {
    const DeviceMesh mesh(derive_dims(config, 1), world);
    const auto model = parallelize(config, mesh);
    std::set<int64_t> again;
    for (const Call& call : model->chunks.at(0).calls()) {
      if (call.recompute) again.insert(call.layer);
    }
    EXPECT_EQ(again, (std::set<int64_t>{1, 2, 4}));
  });
}

// Several results, one of them integers, one without a gradient; a weight inside; a count of calls.
TEST(ActivationCheckpoint, GradientsOfInputsAndWeights) {
  Weight weight;
  weight.value = at::rand({3, 4}, kDouble).set_requires_grad(true);
  int calls = 0, again = 0;
  ModuleCall call;
  call.weights = [&] { return std::vector<Weight*>{&weight}; };
  call.body = [&](const Tensors& x, const LayerContext& context) {
    ++calls;
    again += context.recompute;
    const at::Tensor y = at::linear(x[0], weight.value).tanh();
    return Tensors{y, at::arange(3), (x[1] * y).sum(), y.detach()};
  };
  const at::Tensor a = at::rand({5, 4}, kDouble).set_requires_grad(true);
  const at::Tensor b = at::rand({5, 3}, kDouble).set_requires_grad(true);
  const LayerContext context;
  const auto grads = [&](const Tensors& out) {
    return torch::autograd::grad({(out[0] * out[0]).sum() + out[2] * 3.0}, {a, b, weight.value});
  };
  const Tensors plain = grads(call.body({a, b}, context));
  calls = 0;
  const Tensors out = checkpointed(call, {a, b}, context);
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(out[1].requires_grad());
  const Tensors recomputed = grads(out);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(again, 1);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(at::equal(plain[i], recomputed[i])) << i;

  const at::NoGradGuard no_grad;
  checkpointed(call, {a, b}, context);
  EXPECT_EQ(calls, 3);
}

// Between the passes only the inputs live, after the backward nothing does.
TEST(ActivationCheckpoint, KeepsInputsOnly) {
  ModuleCall call;
  call.weights = [] { return std::vector<Weight*>(); };
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> made;
  call.body = [&](const Tensors& x, const LayerContext&) {
    const at::Tensor inner = x[0].exp();
    made.emplace_back(inner.getIntrusivePtr());
    return Tensors{inner.sin()};
  };
  const auto alive = [&] {
    return std::ranges::count_if(made, [](const auto& weak) { return !weak.expired(); });
  };
  const at::Tensor a = at::rand({5}, kDouble).set_requires_grad(true);
  const LayerContext context;
  {
    const Tensors out = checkpointed(call, {a}, context);
    EXPECT_EQ(alive(), 0);
    torch::autograd::grad({out[0].sum()}, {a});
    EXPECT_EQ(made.size(), 2u);
    EXPECT_EQ(alive(), 0);
  }
}

}  // namespace
}  // namespace tessera
