// DeepSeek-V4 on one rank, no engine: what is inside its layers, losses and gradients against
// transformers' (float64).

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tessera/nn/experts/moe.h"
#include "tests/models/deepseek_v4_case.h"
#include "tests/support/json_files.h"

namespace tessera {
namespace {

using nlohmann::json;

void expect_tensor(const at::Tensor& got, const json& want, const std::string& name) {
  const double norm = want.at("norm");
  EXPECT_EQ(got.numel(), at::empty(want.at("shape").get<std::vector<int64_t>>()).numel()) << name;
  EXPECT_NEAR(got.norm().item<double>(), norm, 1e-9 * norm) << name;
  const at::Tensor flat = got.contiguous().flatten();
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(flat[i].item<double>(), want.at("first").at(static_cast<size_t>(i)).get<double>(),
                1e-9 * norm)
        << name << " number " << i;
  }
}

std::vector<int32_t> sorted_row(const at::Tensor& chosen_TK, int64_t row) {
  const at::Tensor of_row = chosen_TK[row].contiguous();
  const int32_t* first = of_row.const_data_ptr<int32_t>();
  std::vector<int32_t> all(first, first + of_row.numel());
  std::sort(all.begin(), all.end());
  return all;
}

void expect_site(const HyperConnection::Site& site, const json& want, const std::string& name) {
  expect_tensor(site.post_TN, want.at("post"), name + " post");
  expect_tensor(site.comb_TNN, want.at("comb"), name + " comb");
  expect_tensor(site.collapsed_TH, want.at("collapsed"), name + " collapsed");
}

void expect_entries(CompressedAttention& attention, const at::Tensor& x_TH,
                    const LayerContext& context, const json& file, const std::string& name) {
  if (!attention.compressor) return;
  expect_tensor(attention.compressor->forward(x_TH, context), file.at(name + ".compressed"),
                name + " entries");
  if (!attention.indexer) return;
  const at::Tensor latent = attention.q_norm->forward(
      attention.down_proj->stacked(x_TH, context).narrow(1, 0, attention.down_proj->part_rows[0]));
  const at::Tensor chosen_TK = attention.chosen(x_TH, latent, context);
  for (const int64_t row : {63, 255}) {
    EXPECT_EQ(sorted_row(chosen_TK, row), file.at(name + ".indexer")
                                              .at("chosen_at_" + std::to_string(row))
                                              .get<std::vector<int32_t>>())
        << name;
  }
}

TEST(DeepseekV4, EveryPartOfEveryLayerEqualsTheReference) {
  const DeepseekV4Case opened = open_deepseek_v4();
  Decoder& decoder = *opened.decoder;
  const json file = test::read_json(opened.reference.folder / "expected_layers.json");
  const at::NoGradGuard no_grad;
  const auto batch = global_batch(opened.reference, 0);
  LayerContext context = rows_of(batch, 0, 1);
  decoder.prepare(context);
  at::Tensor x = decoder.run_embedding(context);
  for (const auto& layer : decoder.layers) {
    const std::string name = "layers." + std::to_string(layer->index);
    const auto first = layer->attention_streams->open(x);
    expect_site(first, file.at(name + ".attn_hc"), name + " attention");
    const at::Tensor read = layer->before_attention(first.collapsed_TH, context);
    expect_entries(attention_of(*layer), read, context, file, name);
    const at::Tensor attended = layer->attention->forward(read, context);
    expect_tensor(attended, file.at(name + ".self_attn"), name + " attention");
    const at::Tensor middle = layer->attention_streams->close(x, attended, first);
    const auto second = layer->mlp_streams->open(middle);
    expect_site(second, file.at(name + ".ffn_hc"), name + " experts");
    const at::Tensor made =
        layer->mlp->forward(layer->before_mlp(second.collapsed_TH, context), context).y_TH;
    expect_tensor(made, file.at(name + ".mlp"), name + " experts");
    x = layer->run(x, context)[0];
    expect_tensor(x, file.at(name), name);
  }
  expect_tensor(decoder.stream_head->forward(x), file.at("hc_head"), "collapsed");
  expect_tensor(decoder.head->logits(decoder.final_state(x)), file.at("logits"), "logits");
}

// Gradient of each published parameter. Those that no gradient reaches have zeros.
std::map<std::string, at::Tensor> by_name(const std::vector<Weight*>& weights,
                                          const std::vector<at::Tensor>& gradients) {
  std::map<std::string, at::Tensor> named;
  for (size_t i = 0; i < weights.size(); ++i) {
    const at::Tensor all =
        gradients[i].defined() ? gradients[i] : at::zeros_like(weights[i]->value);
    int64_t row = 0;
    for (const ParameterPart& part : weights[i]->parts) {
      const at::Tensor own = all.narrow(0, row, part.shape[0]);
      row += part.shape[0];
      const size_t place = part.name.find("{e}");
      if (place == std::string::npos) {
        named[part.name] = own;
        continue;
      }
      for (int64_t e = 0; e < own.size(0); ++e) {
        named[std::string(part.name).replace(place, 3, std::to_string(e))] = own[e];
      }
    }
  }
  return named;
}

struct Pass {
  double loss = 0;
  std::vector<at::Tensor> gradients;
  std::map<Sinks::Key, at::Tensor> tokens_per_expert;
};

Pass run(const DeepseekV4Case& opened, int64_t step) {
  Decoder& decoder = *opened.decoder;
  auto context = global_batch(opened.reference, step);
  Sinks sinks;
  context.own->sinks = &sinks;
  decoder.prepare(context);
  at::Tensor x = decoder.run_embedding(context);
  for (const auto& layer : decoder.layers) x = layer->run(x, context)[0];
  const at::Tensor loss = decoder.run_head(x, context);
  std::vector<at::Tensor> leaves;
  for (const Weight* weight : opened.weights) leaves.push_back(weight->value);
  return {loss.item<double>(),
          torch::autograd::grad({loss}, leaves, {}, /*retain_graph=*/false, /*create_graph=*/false,
                                /*allow_unused=*/true),
          sinks.tokens_per_expert};
}

TEST(DeepseekV4, EveryGradientEqualsTheReference) {
  const DeepseekV4Case opened = open_deepseek_v4();
  const Pass pass = run(opened, 0);
  const double expected = expected_first_loss(opened.reference);
  EXPECT_NEAR(pass.loss, expected, 1e-9 * expected);
  const auto gradients = by_name(opened.weights, pass.gradients);
  const auto wanted = expected_gradients(opened.reference);
  EXPECT_EQ(gradients.size(), wanted.size());
  for (const ExpectedGradient& want : wanted) {
    ASSERT_TRUE(gradients.contains(want.name)) << want.name;
    const at::Tensor got = gradients.at(want.name).contiguous().flatten();
    const double root = std::sqrt(static_cast<double>(got.numel()));
    EXPECT_NEAR(got.norm().item<double>(), want.norm, 1e-9 * want.norm) << want.name;
    EXPECT_NEAR(got.sum().item<double>(), want.sum, 1e-9 * want.norm * root) << want.name;
    for (size_t i = 0; i < want.first.size(); ++i) {
      EXPECT_NEAR(got[static_cast<int64_t>(i)].item<double>(), want.first[i], 1e-9 * want.norm)
          << want.name << " element " << i;
    }
  }
}

// The choice of entries passes no gradient: exactly the indexer is without.
TEST(DeepseekV4, OnlyTheIndexerIsWithoutGradient) {
  const DeepseekV4Case opened = open_deepseek_v4();
  const Pass pass = run(opened, 0);
  std::set<std::string> without;
  for (size_t i = 0; i < opened.weights.size(); ++i) {
    if (pass.gradients[i].defined()) continue;
    for (const ParameterPart& part : opened.weights[i]->parts) without.insert(part.name);
  }
  EXPECT_EQ(without, test::read_json(opened.reference.folder / "without_gradient.json")
                         .get<std::set<std::string>>());
}

TEST(DeepseekV4, TwoUpdatesEqualTheReference) {
  const DeepseekV4Case opened = open_deepseek_v4();
  const std::vector<json> steps = test::read_json_lines(opened.reference.folder / "expected.jsonl");
  for (int64_t step = 0; step < 2; ++step) {
    const json& want = steps[static_cast<size_t>(step)];
    const Pass pass = run(opened, step);
    const double expected = want.at("loss");
    EXPECT_NEAR(pass.loss, expected, 1e-9 * expected) << "update " << step + 1;
    double squares = 0;
    for (const auto& [key, counts] : pass.tokens_per_expert) {
      const at::Tensor all = counts.contiguous();
      const int64_t* first = all.const_data_ptr<int64_t>();
      EXPECT_EQ(std::vector<int64_t>(first, first + all.numel()),
                want.at("tokens_per_expert")
                    .at(static_cast<size_t>(key.first))
                    .get<std::vector<int64_t>>())
          << "layer " << key.first;
    }
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < opened.weights.size(); ++i) {
      if (!pass.gradients[i].defined()) continue;
      squares += pass.gradients[i].square().sum().item<double>();
      opened.weights[i]->value.sub_(pass.gradients[i], want.at("lr").get<double>());
    }
    const double norm = want.at("grad_norm");
    EXPECT_NEAR(std::sqrt(squares), norm, 1e-9 * norm) << "update " << step + 1;
  }
}

}  // namespace
}  // namespace tessera
