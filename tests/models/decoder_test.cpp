// One rank, no engine: losses and gradients of published models against transformers' (float64).

#include "tessera/models/decoder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "tessera/layout/model_spec.h"
#include "tests/models/reference_case.h"

namespace tessera {
namespace {

std::vector<int64_t> all_layers(const ModelConfig& model) {
  std::vector<int64_t> layers(static_cast<size_t>(model.num_hidden_layers));
  std::iota(layers.begin(), layers.end(), 0);
  return layers;
}

// Gradient of each published parameter: the rows of its stacked weight.
std::map<std::string, at::Tensor> gradients_by_name(const std::vector<Weight*>& weights,
                                                    const std::vector<at::Tensor>& gradients) {
  std::map<std::string, at::Tensor> named;
  for (size_t i = 0; i < weights.size(); ++i) {
    int64_t row = 0;
    for (const ParameterPart& part : weights[i]->parts) {
      named[part.name] = gradients[i].narrow(0, row, part.shape[0]);
      row += part.shape[0];
    }
  }
  return named;
}

void expect_gradients(const ReferenceCase& reference,
                      const std::map<std::string, at::Tensor>& gradients) {
  const auto expected = expected_gradients(reference);
  EXPECT_EQ(expected.size(), gradients.size());
  for (const ExpectedGradient& want : expected) {
    ASSERT_TRUE(gradients.contains(want.name)) << want.name;
    const at::Tensor got = gradients.at(want.name).contiguous();
    const double root = std::sqrt(static_cast<double>(got.numel()));
    EXPECT_NEAR(got.norm().item<double>(), want.norm, 1e-9 * want.norm) << want.name;
    EXPECT_NEAR(got.sum().item<double>(), want.sum, 1e-9 * want.norm * root) << want.name;
    for (size_t i = 0; i < want.first.size(); ++i) {
      EXPECT_NEAR(got.const_data_ptr<double>()[i], want.first[i], 1e-9 * want.norm)
          << want.name << " element " << i;
    }
  }
}

class DecoderCase : public testing::TestWithParam<const char*> {};

TEST_P(DecoderCase, FirstLossAndGradientsEqualTheReference) {
  const ReferenceCase reference = open_case(GetParam());
  const auto decoder = build_decoder(reference.model, all_layers(reference.model), true, true);
  const std::vector<Weight*> weights = bind_case_weights(*decoder, reference);
  auto context = global_batch(reference, 0);
  decoder->prepare(context);
  at::Tensor x = decoder->run_embedding(context);
  for (const auto& layer : decoder->layers) x = layer->run(x, context)[0];
  const at::Tensor loss = decoder->run_head(x, context);
  const double expected = expected_first_loss(reference);
  EXPECT_NEAR(loss.item<double>(), expected, 1e-9 * expected);

  std::vector<at::Tensor> leaves;
  for (const Weight* weight : weights) leaves.push_back(weight->value);
  expect_gradients(reference, gradients_by_name(weights, torch::autograd::grad({loss}, leaves)));
}

// As an engine runs it: micro-batches, every unit in its own graph on a detached input, gradients
// summed, a chunked head.
TEST_P(DecoderCase, UnitsInTheirOwnGraphsGiveTheSame) {
  const ReferenceCase reference = open_case(GetParam());
  const auto decoder = build_decoder(reference.model, all_layers(reference.model), true, true);
  decoder->head->chunks = 3;
  const std::vector<Weight*> weights = bind_case_weights(*decoder, reference);
  std::map<Weight*, at::Tensor> sums;
  const auto backward = [&](const at::Tensor& out, const at::Tensor& grad_out,
                            const std::vector<Weight*>& used, const at::Tensor& input) {
    std::vector<at::Tensor> leaves;
    for (const Weight* weight : used) leaves.push_back(weight->value);
    if (input.defined()) leaves.push_back(input);
    const auto grads = torch::autograd::grad({out}, leaves, {grad_out});
    for (size_t i = 0; i < used.size(); ++i) {
      at::Tensor& sum = sums[used[i]];
      sum = sum.defined() ? sum + grads[i] : grads[i];
    }
    return grads.back();
  };

  double loss_sum = 0;
  const auto batch = global_batch(reference, 0);
  for (int64_t row = 0; row < batch.rows; row += 2) {
    LayerContext context = rows_of(batch, row, row + 2);
    decoder->prepare(context);
    std::vector<at::Tensor> inputs, outputs;
    outputs.push_back(decoder->run_embedding(context));
    for (const auto& layer : decoder->layers) {
      inputs.push_back(outputs.back().detach().requires_grad_(true));
      outputs.push_back(layer->run(inputs.back(), context)[0]);
    }
    const at::Tensor last = outputs.back().detach().requires_grad_(true);
    const at::Tensor loss = decoder->run_head(last, context);
    loss_sum += loss.item<double>();
    at::Tensor grad =
        backward(loss, at::ones_like(loss), {&decoder->norm->weight, decoder->head->weight}, last);
    for (size_t i = decoder->layers.size(); i-- > 0;) {
      grad = backward(outputs[i + 1], grad, decoder->layers[i]->weights(), inputs[i]);
    }
    backward(outputs[0], grad, {&decoder->embedding->weight}, {});
  }
  const double expected = expected_first_loss(reference);
  EXPECT_NEAR(loss_sum, expected, 1e-9 * expected);
  std::vector<at::Tensor> gradients;
  for (Weight* weight : weights) gradients.push_back(sums.at(weight));
  expect_gradients(reference, gradients_by_name(weights, gradients));
}

INSTANTIATE_TEST_SUITE_P(Dense, DecoderCase,
                         testing::Values("llama_sgd64", "qwen3_tied64", "qwen3_eod64"),
                         [](const auto& info) { return std::string(info.param); });

ModelConfig tiny_model() {
  ModelConfig model;
  model.vocab_size = 40;
  model.hidden_size = 16;
  model.intermediate_size = 24;
  model.num_hidden_layers = 3;
  model.num_attention_heads = 4;
  model.num_key_value_heads = 1;
  model.head_dim = 6;
  model.compute_dtype = DType::kFloat64;
  model.layernorm_compute_dtype = DType::kFloat64;
  model.rotary_dtype = DType::kFloat64;
  return model;
}

std::set<std::string> names_of(Decoder& decoder) {
  std::set<std::string> names;
  for (const DecoderUnit& unit : decoder.units()) {
    for (const Weight* weight : unit.weights) {
      for (const ParameterPart& part : weight->parts) {
        EXPECT_TRUE(names.insert(part.name).second) << part.name << " is in two weights";
      }
    }
  }
  return names;
}

TEST(Decoder, PartsCoverTheModelSpec) {
  for (const bool tied : {false, true}) {
    ModelConfig model = tiny_model();
    model.tie_word_embeddings = tied;
    model.attention_bias = true;
    model.mlp_bias = true;
    model.qk_layernorm = tied;
    model.mlp_bias = !tied;
    std::set<std::string> expected;
    std::map<std::string, std::vector<int64_t>> shapes;
    for (const ParamSpec& spec : model_spec(model)) {
      if (spec.tied_to.empty()) expected.insert(spec.name);
      shapes[spec.name] = spec.shape;
    }
    const auto whole = build_decoder(model, {0, 1, 2}, true, true);
    EXPECT_EQ(names_of(*whole), expected);
    for (const DecoderUnit& unit : whole->units()) {
      for (const Weight* weight : unit.weights) {
        for (const ParameterPart& part : weight->parts) {
          EXPECT_EQ(part.shape, shapes.at(part.name));
        }
      }
    }

    const auto first = build_decoder(model, {0}, true, false);
    const auto last = build_decoder(model, {1, 2}, false, true);
    std::set<std::string> both = names_of(*first);
    const std::set<std::string> of_last = names_of(*last);
    EXPECT_EQ(of_last.contains("model.embed_tokens.weight"), tied);
    both.insert(of_last.begin(), of_last.end());
    EXPECT_EQ(both, expected);
    EXPECT_EQ(last->layers[1]->index, 2);
  }
}

TEST(Decoder, ModuleNamesFollowMindFormersAndHuggingFace) {
  ModelConfig model = tiny_model();
  model.qk_layernorm = true;
  const auto decoder = build_decoder(model, {0}, false, false);
  std::set<std::string> names;
  for (const ModuleCall* call : decoder->layers[0]->modules()) {
    const auto of_call = module_names(call->module, model.design());
    names.insert(of_call.begin(), of_call.end());
  }
  for (const char* name :
       {"self_attention", "self_attention.core_attention", "self_attention.linear_qkv",
        "self_attention.linear_proj", "self_attention.q_layernorm", "mlp", "mlp.linear_fc1",
        "mlp.linear_fc2", "self_attn.q_proj", "mlp.gate_proj", "input_layernorm"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

// Every wrapper that only passes the call on leaves the numbers as they are, and is really used.
TEST(Decoder, WrappersSeeEveryCall) {
  ModelConfig model = tiny_model();
  model.qk_layernorm = true;
  const auto decoder = build_decoder(model, {0}, false, false);
  for (const DecoderUnit& unit : decoder->units()) {
    for (Weight* weight : unit.weights) {
      int64_t rows = 0;
      for (const ParameterPart& part : weight->parts) rows += part.shape[0];
      std::vector<int64_t> shape = weight->parts[0].shape;
      shape[0] = rows;
      weight->value = at::sin(at::arange(shape[0], at::kDouble)).reshape({-1, 1});
      weight->value = weight->value.expand({shape[0], shape.size() > 1 ? shape[1] : 1}).clone();
      weight->value = weight->value.reshape(shape) * 0.1;
    }
  }
  LayerContext context;
  context.rows = 2;
  context.seq_length = 5;
  context.positions = at::arange(5, at::kLong).repeat({2});
  decoder->prepare(context);
  const at::Tensor x = at::cos(at::arange(160, at::kDouble)).reshape({10, 16});
  const at::Tensor plain = decoder->layers[0]->run(x, context)[0];
  std::set<LayerModule> called;
  for (ModuleCall* call : decoder->layers[0]->modules()) {
    call->wrapper = [&called](const ModuleCall& self, const Tensors& inputs,
                              const LayerContext& at) {
      called.insert(self.module);
      return self.body(inputs, at);
    };
  }
  EXPECT_TRUE(at::equal(decoder->layers[0]->run(x, context)[0], plain));
  EXPECT_EQ(called.size(), decoder->layers[0]->modules().size());
}

}  // namespace
}  // namespace tessera
