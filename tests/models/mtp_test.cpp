// Multi-token prediction: its numbers by differences, since no other software computes them the
// same.

#include "tessera/models/mtp.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tessera/config/family.h"
#include "tessera/models/decoder.h"
#include "tests/nn/gradient_check.h"
#include "tests/support/context_with_step.h"

namespace tessera {
namespace {

ModelConfig tiny_model(bool low_rank) {
  ModelConfig model;
  model.family = builtin_families().find("deepseek_v3");
  model.vocab_size = 13;
  model.hidden_size = 12;
  model.intermediate_size = 10;
  model.num_hidden_layers = 2;
  model.num_attention_heads = 2;
  model.num_key_value_heads = 2;
  if (low_rank) model.q_lora_rank = 6;
  model.kv_lora_rank = 5;
  model.qk_nope_head_dim = 4;
  model.qk_rope_head_dim = 2;
  model.v_head_dim = 3;
  model.qk_layernorm = true;
  model.n_routed_experts = 4;
  model.num_experts_per_tok = 2;
  model.n_shared_experts = 1;
  model.moe_intermediate_size = 6;
  model.moe_shared_expert_intermediate_size = 6;
  model.first_k_dense_replace = 1;
  model.moe_router_score_function = "sigmoid";
  model.routed_scaling_factor = 1.5;
  model.num_nextn_predict_layers = 1;
  model.mtp_loss_factor = 0.3;
  model.use_shared_expert_gating = low_rank;
  for (DType* type :
       {&model.params_dtype, &model.embedding_params_dtype, &model.compute_dtype,
        &model.layernorm_compute_dtype, &model.rotary_dtype, &model.moe_router_dtype}) {
    *type = DType::kFloat64;
  }
  return model;
}

std::vector<Weight*> bind(Decoder& decoder) {
  std::vector<Weight*> weights;
  double phase = 0.1;
  for (const DecoderUnit& unit : decoder.units()) {
    for (Weight* weight : unit.weights) {
      std::vector<at::Tensor> parts;
      for (const ParameterPart& part : weight->parts) {
        at::Tensor values = sample_values(part.shape, phase += 0.37) * 0.4;
        if (part.init == InitKind::kOnes) values = values + 1;
        parts.push_back(values);
      }
      weight->value = at::cat(parts).requires_grad_(true);
      weights.push_back(weight);
    }
  }
  return weights;
}

test::ContextWithStep batch_of(int64_t rows, int64_t length) {
  const int64_t tokens = rows * length;
  const auto number = [](int64_t n) { return at::arange(n, at::kLong); };
  test::ContextWithStep context;
  context.rows = rows;
  context.seq_length = length;
  context.residual_tokens = {0, tokens};
  context.token_ids = (number(tokens) * 5 + 3).remainder(13);
  context.labels = (number(tokens) * 7 + 1).remainder(13);
  context.loss_mask = at::ones({tokens}, at::kDouble);
  context.positions = number(length).repeat({rows});
  const auto later = [&](const at::Tensor& x) {
    at::Tensor shifted = x.view({rows, length}).roll(-1, 1);
    shifted.select(1, length - 1).zero_();
    return shifted.flatten();
  };
  context.next_ids = later(context.token_ids);
  context.next_labels = later(context.labels);
  context.next_loss_mask = later(context.loss_mask);
  context.next_positions = later(context.positions);
  context.own->loss_scale = 1.0 / static_cast<double>(tokens);
  context.own->next_loss_scale = 0.3 / static_cast<double>(tokens - rows);
  return context;
}

at::Tensor objective(Decoder& decoder, const LayerContext& context) {
  at::Tensor x = decoder.run_embedding(context);
  for (const auto& layer : decoder.layers) x = layer->run(x, context)[0];
  const Tensors out = decoder.run_mtp(x, context);
  return decoder.run_head(out[0], context) + out[1];
}

void expect_gradients_by_differences(Decoder& decoder) {
  const std::vector<Weight*> weights = bind(decoder);
  auto context = batch_of(2, 5);
  decoder.prepare(context);
  std::vector<at::Tensor> values;
  for (const Weight* weight : weights) values.push_back(weight->value);
  const auto gradients = torch::autograd::grad({objective(decoder, context)}, values);

  const at::NoGradGuard no_grad;
  constexpr double kStep = 1e-6;
  const auto along = [&](const at::Tensor& value, const at::Tensor& direction) {
    const at::Tensor kept = value.clone();
    value.copy_(kept + direction * kStep);
    const double above = objective(decoder, context).item<double>();
    value.copy_(kept - direction * kStep);
    const double below = objective(decoder, context).item<double>();
    value.copy_(kept);
    return (above - below) / (2 * kStep);
  };
  for (size_t i = 0; i < weights.size(); ++i) {
    const at::Tensor direction = sample_values(values[i].sizes().vec(), 0.9);
    const double expected = (gradients[i] * direction).sum().item<double>();
    const double scale = (gradients[i].norm() * direction.norm()).item<double>();
    EXPECT_GT(scale, 0) << weights[i]->parts[0].name;
    EXPECT_NEAR(along(values[i], direction), expected, 1e-6 * scale + 1e-10)
        << weights[i]->parts[0].name;
  }
}

// Two streams of the residual everywhere, each end of them with its own numbers.
void add_streams(Decoder& decoder, int64_t hidden) {
  constexpr int64_t kStreams = 2;
  const auto weight = [](const std::string& name, const std::vector<int64_t>& shape) {
    Weight made;
    made.dtype = at::kDouble;
    ParameterPart part;
    part.name = name;
    part.shape = shape;
    made.parts.push_back(part);
    return made;
  };
  const auto connection = [&] {
    auto made = std::make_unique<HyperConnection>();
    made->streams = kStreams;
    made->fn = weight("fn", {(2 + kStreams) * kStreams, kStreams * hidden});
    made->base = weight("base", {(2 + kStreams) * kStreams});
    made->scale = weight("scale", {3});
    return made;
  };
  const auto end = [&] {
    auto made = std::make_unique<StreamHead>();
    made->fn = weight("head_fn", {kStreams, kStreams * hidden});
    made->base = weight("head_base", {kStreams});
    made->scale = weight("head_scale", {1});
    return made;
  };
  for (DecoderLayer* layer : decoder.all_layers()) {
    layer->attention_streams = connection();
    layer->mlp_streams = connection();
  }
  decoder.streams = kStreams;
  decoder.stream_head = end();
  decoder.mtp->streams = kStreams;
  decoder.mtp->stream_head = end();
}

class Mtp : public testing::TestWithParam<bool> {};

TEST_P(Mtp, GradientsByDifferences) {
  const auto decoder = build_decoder(tiny_model(GetParam()), {0, 1}, true, true);
  expect_gradients_by_differences(*decoder);
}

TEST_P(Mtp, GradientsByDifferencesWithStreams) {
  const ModelConfig model = tiny_model(GetParam());
  const auto decoder = build_decoder(model, {0, 1}, true, true);
  add_streams(*decoder, model.hidden_size);
  expect_gradients_by_differences(*decoder);
}

INSTANTIATE_TEST_SUITE_P(QueryRank, Mtp, testing::Bool());

// The last token of a sample has no token after the next: its loss must not count, and what a token
// predicts must not see further than its next token.
TEST(MtpMask, SeesTheNextTokenAndNoFurther) {
  const ModelConfig model = tiny_model(true);
  const auto decoder = build_decoder(model, {0, 1}, true, true);
  bind(*decoder);
  const at::NoGradGuard no_grad;
  auto context = batch_of(1, 6);
  decoder->prepare(context);
  context.next_loss_mask.zero_();
  context.next_loss_mask[2] = 1.0;
  const auto loss = [&] {
    at::Tensor x = decoder->run_embedding(context);
    for (const auto& layer : decoder->layers) x = layer->run(x, context)[0];
    return decoder->run_mtp(x, context)[1].item<double>();
  };
  const double before = loss();
  context.token_ids[4] = 9;  // two after token 2: only its label may know
  context.next_ids[3] = 9;
  EXPECT_EQ(loss(), before);
  context.token_ids[3] = 11;
  context.next_ids[2] = 11;
  EXPECT_NE(loss(), before);
}

}  // namespace
}  // namespace tessera
