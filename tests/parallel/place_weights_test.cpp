// A weight that no code of tensor parallelism knows is held and summed right, by its role alone.

#include "tessera/parallel/place_weights.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/comm/threads/run_ranks.h"
#include "tessera/nn/attention/attention.h"
#include "tessera/parallel/fully_shard.h"
#include "tessera/parallel/tensor/tensor_parallel.h"
#include "tests/comm/dims.h"

namespace tessera {
namespace {

using test::dims_of;

Config small() {
  Config config;
  ModelConfig& model = config.model;
  model.model_type = "llama";
  model.vocab_size = 8;
  model.hidden_size = 8;
  model.intermediate_size = 8;
  model.num_hidden_layers = 1;
  model.num_attention_heads = 4;
  model.num_key_value_heads = 2;
  model.head_dim = 2;
  model.hidden_act = "silu";
  return config;
}

// A norm that the model does not have.
std::unique_ptr<Norm> added_norm() {
  auto norm = std::make_unique<Norm>();
  ParameterPart part;
  part.name = "added.weight";
  part.shape = {2};
  part.role = ParamRole::kNorm;
  norm->weight.parts = {part};
  return norm;
}

TEST(PlaceWeights, AnAddedNormIsFinishedWithoutACall) {
  run_ranks(4, [](const ProcessGroup& world) {
    const Config config = small();
    const DeviceMesh mesh(dims_of(1, 1, 1, 1, 4), world);
    ParallelModel model;
    model.decoders.push_back(build_decoder(config.model, {0}, true, true));
    Decoder& decoder = *model.decoders.front();
    dynamic_cast<Attention&>(*decoder.layers.front()->attention).q_norm = added_norm();
    tensor_parallel(decoder, config, mesh);
    place_weights(decoder, config.model, mesh.dims());
    fully_shard(model, decoder, config, mesh);

    for (const auto& param : model.table.params()) {
      param->grad = at::full(param->box.sizes, 1 << world.rank(), param->value.options());
    }
    finish_gradients(model.table, mesh);
    const auto grad = [&](const std::string& name) {
      return model.table.find(name)->grad.view(-1)[0].item<int>();
    };
    EXPECT_EQ(grad("added.weight"), 15);
    EXPECT_EQ(grad("model.layers.0.input_layernorm.weight"), 15);
    EXPECT_EQ(grad("model.layers.0.self_attn.k_proj.weight"), world.rank() < 2 ? 3 : 12);
    EXPECT_EQ(grad("model.layers.0.self_attn.q_proj.weight"), 1 << world.rank());
  });
}

}  // namespace
}  // namespace tessera
