#include "tessera/checkpoint/hf_load.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tessera/base/error.h"
#include "tessera/checkpoint/element_scalar.h"
#include "tests/support/temp_dir.h"

namespace tessera {
namespace {

using Named = std::vector<std::pair<std::string, at::Tensor>>;

at::Tensor numbered(const std::vector<int64_t>& shape, double first) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return at::arange(count, at::kFloat).add(first).reshape(shape);
}

void write_file(const std::filesystem::path& path, const Named& tensors) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, value] : tensors) {
    entries.push_back({name, element_type(value.scalar_type()), value.sizes().vec()});
  }
  SafetensorsWriter writer(path, entries);
  for (const auto& [name, value] : tensors) writer.append(value);
  writer.close();
}

ParamSpec spec(const std::string& name, std::vector<int64_t> shape, const std::string& tied = "") {
  ParamSpec param;
  param.name = name;
  param.shape = std::move(shape);
  param.tied_to = tied;
  return param;
}

ParamSpec expert_spec(int64_t expert, const std::string& kind, std::vector<int64_t> shape) {
  ParamSpec param =
      spec("model.layers.0.mlp.experts." + std::to_string(expert) + "." + kind + ".weight",
           std::move(shape));
  param.expert = expert;
  return param;
}

const std::vector<ParamSpec> kModel{spec("model.embed_tokens.weight", {6, 4}),
                                    spec("model.layers.0.up.weight", {8, 4}),
                                    spec("model.norm.weight", {4}), spec("lm_head.weight", {6, 4})};

Named sound_model(const std::string& prefix = "model.") {
  return {{prefix + "embed_tokens.weight", numbered({6, 4}, 0)},
          {prefix + "layers.0.up.weight", numbered({8, 4}, 100)},
          {prefix + "norm.weight", numbered({4}, 200)},
          {"lm_head.weight", numbered({6, 4}, 300)}};
}

std::string error_of(const std::filesystem::path& folder, const std::vector<ParamSpec>& model) {
  try {
    HfWeights weights(folder, model);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "";
}

TEST(HfWeights, ReadsBoxesInTheTypeThatIsAskedFor) {
  const test::TempDir folder;
  write_file(folder.path() / "model.safetensors", sound_model());
  EXPECT_TRUE(holds_published_weights(folder.path()));
  const HfWeights weights(folder.path(), kModel);
  const at::Tensor part =
      weights.read_box("model.layers.0.up.weight", {{2, 1}, {3, 2}}, at::kDouble);
  EXPECT_EQ(part.scalar_type(), at::kDouble);
  EXPECT_TRUE(
      at::equal(part, numbered({8, 4}, 100).narrow(0, 2, 3).narrow(1, 1, 2).to(at::kDouble)));
}

TEST(HfWeights, ReadsShardsThroughTheIndex) {
  const test::TempDir folder;
  const Named all = sound_model();
  write_file(folder.path() / "model-00001-of-00002.safetensors", {all[0], all[1]});
  write_file(folder.path() / "model-00002-of-00002.safetensors", {all[2], all[3]});
  std::ofstream(folder.path() / "model.safetensors.index.json") << R"({"metadata": {}, "weight_map":
    {"model.embed_tokens.weight": "model-00001-of-00002.safetensors",
     "model.layers.0.up.weight": "model-00001-of-00002.safetensors",
     "model.norm.weight": "model-00002-of-00002.safetensors",
     "lm_head.weight": "model-00002-of-00002.safetensors"}})";
  const HfWeights weights(folder.path(), kModel);
  EXPECT_TRUE(at::equal(weights.read_box("lm_head.weight", {{0, 0}, {6, 4}}, at::kFloat),
                        numbered({6, 4}, 300)));
  std::filesystem::remove(folder.path() / "model-00002-of-00002.safetensors");
  EXPECT_NE(error_of(folder.path(), kModel).find("model-00002-of-00002"), std::string::npos);
}

TEST(HfWeights, ADamagedIndexIsNamed) {
  const test::TempDir folder;
  for (const char* text :
       {"", "{", "[]", "{}", R"({"weight_map": {}})", R"({"weight_map": {"a": 3}})",
        R"({"weight_map": {"a": "../a.safetensors"}})"}) {
    std::ofstream(folder.path() / "model.safetensors.index.json") << text;
    EXPECT_NE(error_of(folder.path(), kModel).find("index.json"), std::string::npos) << text;
  }
}

TEST(HfWeights, EverythingThatDoesNotFitIsListedAtOnce) {
  const test::TempDir folder;
  write_file(folder.path() / "model.safetensors",
             {{"model.embed_tokens.weight", numbered({6, 4}, 0)},
              {"model.layers.0.up.weight", numbered({4, 8}, 0)},
              {"model.layers.0.extra.weight", numbered({4}, 0)},
              {"model.layers.0.self_attn.rotary_emb.inv_freq", numbered({4}, 0)},
              {"lm_head.weight", numbered({6, 4}, 0)}});
  const std::string message = error_of(folder.path(), kModel);
  for (const char* words :
       {"missing (1): model.norm.weight", "not in the model (1): model.layers.0.extra.weight",
        "model.layers.0.up.weight is [4, 8], the model has [8, 4]"}) {
    EXPECT_NE(message.find(words), std::string::npos) << message;
  }
  EXPECT_EQ(message.find("inv_freq"), std::string::npos);
  EXPECT_NE(error_of(folder.path() / "none", kModel).find("neither"), std::string::npos);
}

TEST(HfWeights, QuantisedWeightsAreRefusedByName) {
  const test::TempDir folder;
  Named tensors = sound_model();
  tensors[1].second = tensors[1].second.to(at::kChar);
  tensors[2].second = tensors[2].second.to(at::kLong);
  write_file(folder.path() / "model.safetensors", tensors);
  const std::string message = error_of(folder.path(), kModel);
  for (const char* words : {"neither F64, F32, F16 nor BF16 (2)", "model.layers.0.up.weight is I8",
                            "model.norm.weight is I64"}) {
    EXPECT_NE(message.find(words), std::string::npos) << message;
  }
}

// Two experts of a stack [2, 64, 4]: gate is every second row from the first, up from the second.
ParamSpec packed_spec(int64_t expert, int64_t first_row) {
  ParamSpec param = expert_spec(expert, first_row == 0 ? "gate_proj" : "up_proj", {2, 64});
  param.stack = StackPlace{
      "model.layers.0.mlp.experts.gate_up_proj", {2, 64, 4}, {expert}, first_row, 2, true};
  return param;
}

const std::vector<ParamSpec> kPacked{packed_spec(0, 0), packed_spec(0, 1), packed_spec(1, 0),
                                     packed_spec(1, 1)};

at::Tensor packed_bytes() {
  return at::arange(2 * 4 * 2 * 16, at::kLong)
      .mul(37)
      .remainder(256)
      .to(at::kByte)
      .reshape({2, 4, 2, 16});
}
at::Tensor packed_scales() { return at::arange(120, 136, at::kByte).reshape({2, 4, 2}); }

Named packed_model(const at::Tensor& blocks, const at::Tensor& scales) {
  return {{"model.layers.0.mlp.experts.gate_up_proj_blocks", blocks},
          {"model.layers.0.mlp.experts.gate_up_proj_scales", scales}};
}

TEST(HfWeights, BlocksAndScalesOfFourBitsAreReadAsBfloat16) {
  const test::TempDir folder;
  write_file(folder.path() / "model.safetensors", packed_model(packed_bytes(), packed_scales()));
  // The same by whole tensors: lower four bits first, times 2^(scale - 127).
  const at::Tensor magnitudes = at::tensor({0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0}, at::kDouble);
  const at::Tensor table = at::cat({magnitudes, magnitudes.neg()});
  const at::Tensor bytes = packed_bytes().to(at::kLong);
  const at::Tensor codes = at::stack({bytes.remainder(16), bytes.div(16, "floor")}, -1).flatten(-2);
  const at::Tensor expected =
      table.index({codes})
          .mul(at::exp2(packed_scales().to(at::kDouble) - 127).unsqueeze(-1))
          .flatten(-2);  // [expert, row, column]

  const HfWeights weights(folder.path(), kPacked);
  for (const ParamSpec& param : kPacked) {
    EXPECT_EQ(weights.type(param.name), ElementType::kBF16);
    for (const Box& box : {Box{{0, 0}, {2, 64}}, Box{{1, 31}, {1, 2}}, Box{{0, 5}, {2, 40}}}) {
      const at::Tensor rows = expected[param.expert].slice(0, param.stack->first_row, 4, 2);
      EXPECT_TRUE(at::equal(
          weights.read_box(param.name, box, at::kDouble),
          rows.narrow(0, box.offsets[0], box.sizes[0]).narrow(1, box.offsets[1], box.sizes[1])))
          << param.name;
    }
  }
}

TEST(HfWeights, DamagedBlocksOfFourBitsAreNamed) {
  const test::TempDir folder;
  const auto path = folder.path() / "model.safetensors";
  write_file(path, packed_model(packed_bytes().narrow(2, 0, 1).contiguous(), packed_scales()));
  EXPECT_NE(error_of(folder.path(), kPacked).find("gate_up_proj_blocks is [2, 4, 1, 16]"),
            std::string::npos);
  write_file(path, packed_model(packed_bytes(), packed_scales().to(at::kFloat)));
  EXPECT_NE(error_of(folder.path(), kPacked).find("gate_up_proj_scales is F32"), std::string::npos);
  at::Tensor scales = packed_scales();
  scales[1][0][1] = 255;
  write_file(path, packed_model(packed_bytes(), scales));
  const HfWeights weights(folder.path(), kPacked);
  EXPECT_NO_THROW(weights.read_box(kPacked[0].name, {{0, 0}, {2, 64}}, at::kFloat));
  EXPECT_THROW(weights.read_box(kPacked[2].name, {{0, 0}, {2, 64}}, at::kFloat), CheckpointError);
}

TEST(HfWeights, NamesMayLackTheModelPrefix) {
  const test::TempDir folder;
  write_file(folder.path() / "model.safetensors", sound_model(""));
  const HfWeights weights(folder.path(), kModel);
  EXPECT_TRUE(at::equal(weights.read_box("model.norm.weight", {{1}, {3}}, at::kFloat),
                        numbered({4}, 200).narrow(0, 1, 3)));
  // Both spellings of one parameter: one of them is too many.
  Named both = sound_model();
  both.emplace_back("norm.weight", numbered({4}, 0));
  write_file(folder.path() / "model.safetensors", both);
  EXPECT_NE(error_of(folder.path(), kModel).find("not in the model (1): norm.weight"),
            std::string::npos);
}

TEST(HfWeights, ATiedHeadIsAbsentOrTheEmbedding) {
  std::vector<ParamSpec> tied = kModel;
  tied[3].tied_to = "model.embed_tokens.weight";
  const test::TempDir folder;
  const auto path = folder.path() / "model.safetensors";
  Named tensors = sound_model();
  write_file(path, tensors);
  EXPECT_NE(error_of(folder.path(), tied).find("lm_head.weight differs"), std::string::npos);
  tensors[3].second = tensors[0].second;
  write_file(path, tensors);
  EXPECT_EQ(error_of(folder.path(), tied), "");
  tensors.pop_back();
  write_file(path, tensors);
  const HfWeights weights(folder.path(), tied);
  EXPECT_TRUE(at::equal(weights.read_box("lm_head.weight", {{0, 0}, {6, 4}}, at::kFloat),
                        tensors[0].second));
  EXPECT_NE(error_of(folder.path(), kModel).find("missing (1): lm_head.weight"), std::string::npos);
}

TEST(HfWeights, ExpertsByThemselvesOrStacked) {
  constexpr int64_t kExperts = 3, kInner = 2, kHidden = 4;
  std::vector<ParamSpec> model;
  Named single;
  std::vector<at::Tensor> gate_up, down;
  for (int64_t e = 0; e < kExperts; ++e) {
    model.push_back(expert_spec(e, "gate_proj", {kInner, kHidden}));
    model.push_back(expert_spec(e, "up_proj", {kInner, kHidden}));
    model.push_back(expert_spec(e, "down_proj", {kHidden, kInner}));
    const double base = 1000.0 * static_cast<double>(e + 1);
    const at::Tensor g = numbered({kInner, kHidden}, base),
                     u = numbered({kInner, kHidden}, base + 100),
                     d = numbered({kHidden, kInner}, base + 200);
    single.insert(single.end(),
                  {{model[3 * e].name, g}, {model[3 * e + 1].name, u}, {model[3 * e + 2].name, d}});
    gate_up.push_back(at::cat({g, u}));
    down.push_back(d);
  }
  const test::TempDir one, two;
  write_file(one.path() / "model.safetensors", single);
  write_file(two.path() / "model.safetensors",
             {{"model.layers.0.mlp.experts.gate_up_proj", at::stack(gate_up)},
              {"model.layers.0.mlp.experts.down_proj", at::stack(down)}});
  const HfWeights a(one.path(), model), b(two.path(), model);
  for (const ParamSpec& param : model) {
    const Box box{{1, 1}, {param.shape[0] - 1, param.shape[1] - 1}};
    EXPECT_TRUE(at::equal(a.read_box(param.name, box, at::kFloat),
                          b.read_box(param.name, box, at::kFloat)));
  }
  const at::Tensor stack = a.read_box("model.layers.0.mlp.experts.{e}.up_proj.weight",
                                      {{1, 0, 2}, {2, 2, 2}}, at::kFloat);
  EXPECT_TRUE(at::equal(
      stack, at::stack(gate_up).narrow(0, 1, 2).narrow(1, kInner, kInner).narrow(2, 2, 2)));
}

}  // namespace
}  // namespace tessera
