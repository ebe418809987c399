#include "tests/models/reference_case.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/checkpoint/hf_load.h"
#include "tessera/config/family.h"
#include "tessera/layout/model_spec.h"
#include "tests/support/case_path.h"

namespace tessera {

namespace {

using nlohmann::json;

json read_json(const std::filesystem::path& path) {
  std::ifstream in(path);
  TESSERA_CHECK(in.good(), path.string());
  return json::parse(in);
}

template <typename T>
at::Tensor to_tensor(const json& rows, at::ScalarType type) {
  std::vector<T> flat;
  for (const json& row : rows) {
    for (const json& value : row) flat.push_back(value.get<T>());
  }
  return at::tensor(flat, at::TensorOptions().dtype(type));
}

}  // namespace

ReferenceCase open_case(const std::string& name) {
  ReferenceCase reference;
  reference.folder = test::case_path(name);
  const json file = read_json(reference.folder / "model" / "config.json");
  ModelConfig& model = reference.model;
  model = family_defaults(builtin_families().find(file.at("model_type").get<std::string>()));
  const auto read = [&file](const char* key, auto& field) {
    if (file.contains(key) && !file[key].is_null()) file[key].get_to(field);
  };
  read("vocab_size", model.vocab_size);
  read("hidden_size", model.hidden_size);
  read("intermediate_size", model.intermediate_size);
  read("num_hidden_layers", model.num_hidden_layers);
  read("num_attention_heads", model.num_attention_heads);
  read("num_key_value_heads", model.num_key_value_heads);
  read("head_dim", model.head_dim);
  read("rms_norm_eps", model.rms_norm_eps);
  read("rope_theta", model.rope_theta);
  read("tie_word_embeddings", model.tie_word_embeddings);
  read("attention_bias", model.attention_bias);
  for (DType* type :
       {&model.params_dtype, &model.embedding_params_dtype, &model.compute_dtype,
        &model.layernorm_compute_dtype, &model.rotary_dtype, &model.moe_router_dtype}) {
    *type = DType::kFloat64;
  }
  return reference;
}

std::vector<Weight*> bind_case_weights(Decoder& decoder, const ReferenceCase& reference) {
  const HfWeights file(reference.folder / "model", model_spec(reference.model));
  std::vector<Weight*> weights;
  for (const DecoderUnit& unit : decoder.units()) {
    for (Weight* weight : unit.weights) {
      std::vector<at::Tensor> parts;
      for (const ParameterPart& part : weight->parts) {
        const Box whole{std::vector<int64_t>(part.shape.size(), 0), part.shape};
        parts.push_back(file.read_box(part.name, whole, weight->dtype));
      }
      weight->value = at::cat(parts).requires_grad_(true);
      weights.push_back(weight);
    }
  }
  return weights;
}

test::ContextWithStep global_batch(const ReferenceCase& reference, int64_t update) {
  const json batch =
      read_json(reference.folder / "expected_samples.json").at(static_cast<size_t>(update));
  test::ContextWithStep context;
  context.rows = static_cast<int64_t>(batch["input_ids"].size());
  context.seq_length = static_cast<int64_t>(batch["input_ids"][0].size());
  context.token_ids = to_tensor<int64_t>(batch["input_ids"], at::kLong);
  context.labels = to_tensor<int64_t>(batch["labels"], at::kLong);
  context.loss_mask = to_tensor<double>(batch["loss_mask"], at::kDouble);
  context.positions = to_tensor<int64_t>(batch["position_ids"], at::kLong);
  context.own->loss_scale = 1.0 / context.loss_mask.sum().item<double>();
  context.residual_tokens = {0, context.rows * context.seq_length};
  if (batch.contains("document_ends")) {
    for (const json& ends : batch["document_ends"]) {
      context.document_ends.push_back(ends.get<std::vector<int64_t>>());
    }
  }
  return context;
}

LayerContext rows_of(const LayerContext& batch, int64_t begin, int64_t end) {
  LayerContext part = batch;
  part.rows = end - begin;
  const int64_t first = begin * batch.seq_length;
  const int64_t count = part.rows * batch.seq_length;
  for (at::Tensor* tensor : {&part.token_ids, &part.labels, &part.loss_mask, &part.positions}) {
    *tensor = tensor->narrow(0, first, count);
  }
  part.residual_tokens = {0, count};
  if (!batch.document_ends.empty()) {
    part.document_ends.assign(batch.document_ends.begin() + begin,
                              batch.document_ends.begin() + end);
  }
  return part;
}

std::vector<ExpectedGradient> expected_gradients(const ReferenceCase& reference) {
  std::vector<ExpectedGradient> all;
  const json file = read_json(reference.folder / "expected_grads.json");
  for (const auto& [name, value] : file.items()) {
    all.push_back({name, value["norm"], value["sum"], value["first"].get<std::vector<double>>()});
  }
  return all;
}

double expected_first_loss(const ReferenceCase& reference) {
  std::ifstream in(reference.folder / "expected.jsonl");
  std::string line;
  std::getline(in, line);
  return json::parse(line)["loss"];
}

}  // namespace tessera
