#include "tessera/config/family.h"

#include <fstream>

#include "tessera/config/fields/field_text.h"
#include "tessera/config/hf_config_writer.h"
#include "tests/config/config_testing.h"
#include "tests/support/temp_dir.h"

namespace tessera {
namespace {

using namespace testing_config;

TEST(FamilyRows, HaveNamesOfTheirOwn) {
  for (const auto& row : builtin_families().rows()) {
    EXPECT_EQ(builtin_families().find(row->model_type), row);
    EXPECT_EQ(builtin_families().find_architecture(row->architecture), row);
  }
  EXPECT_EQ(builtin_families().find("gpt2"), nullptr);
  EXPECT_EQ(builtin_families().find(""), nullptr);
}

TEST(FamilyRows, DefaultsAreLegal) {
  for (const auto& row : builtin_families().rows()) {
    Config config;
    config.model = family_defaults(row);
    for (const FixedField& fixed : row->fixed) {
      EXPECT_TRUE(has_value(config, fixed.path, fixed.text))
          << row->model_type << " " << fixed.path;
      EXPECT_FALSE(fixed.reason.empty()) << row->model_type << " " << fixed.path;
    }
    for (const FieldText& field : row->hf_implied) {
      set_field(config, field.path, field.text);
      for (const FixedField& fixed : row->fixed) {
        if (fixed.path != field.path) continue;
        EXPECT_EQ(fixed.text, field.text) << row->model_type << " " << fixed.path;
      }
    }
    for (const FieldText& field : row->hf_defaults) set_field(config, field.path, field.text);
  }
}

// What is written as a config.json is read as the same model.
TEST(FamilyRows, ConfigJsonIsReadBack) {
  for (const auto& row : builtin_families().rows()) {
    ModelConfig model = family_defaults(row);
    model.num_key_value_heads = model.num_attention_heads;
    model.head_dim = model.hidden_size / model.num_attention_heads;
    if (row->has_experts) model.n_routed_experts = 16;
    const test::TempDir folder;
    const std::string json = hf_config_json(model, DType::kBFloat16);
    std::ofstream(folder.path() / "config.json") << json;
    const ConfigResult read = load_config_text(
        "checkpoint: {load_path: '" + folder.path().string() + "'}\n", "x.yaml", ".", {});
    EXPECT_TRUE(read.ok()) << format_issues(read.issues);
    EXPECT_EQ(read.config.model.family, row);
    EXPECT_EQ(hf_config_json(read.config.model, DType::kBFloat16), json) << row->model_type;
  }
}

TEST(FamilyTable, ALongerOneSharesItsRows) {
  Family other;
  other.model_type = "other";
  other.architecture = "OtherForCausalLM";
  const FamilyTable longer = builtin_families().with(other);
  EXPECT_EQ(longer.find("llama"), builtin_families().find("llama"));
  EXPECT_EQ(longer.names(), builtin_families().names() + ", other");
  const std::string text = "model: {model_type: other}";
  EXPECT_EQ(load_config_text(text, "x", ".", {}, longer).config.model.family, longer.find("other"));
  EXPECT_EQ(load_config_text(text, "x", ".", {}).config.model.family, nullptr);
}

// A name that is no family's: legal ones are listed, and one is proposed only when it is the same
// but for its spelling. Another model is no slip of the key.
TEST(UnknownFamily, IsRefusedAndNotGuessed) {
  const auto nearest = [](const std::string& type) {
    const auto checked = check_base(1, {"model.model_type=" + type});
    EXPECT_THAT(checked,
                HasError("model.model_type", "must be one of " + builtin_families().names()))
        << type;
    for (const Issue& issue : checked) {
      if (issue.field == "model.model_type") return issue.nearest;
    }
    return std::string("no issue");
  };
  EXPECT_EQ(nearest("qwen3moe"), "qwen3_moe");
  EXPECT_EQ(nearest("DeepSeek-V3"), "deepseek_v3");
  EXPECT_EQ(nearest("qwen4"), "");
  EXPECT_EQ(nearest("llama9"), "");
  EXPECT_EQ(nearest("qwen3_vl"), "");
}

}  // namespace
}  // namespace tessera
