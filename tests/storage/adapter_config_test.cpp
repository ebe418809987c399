// adapter_config.json of PEFT: what is read, what is refused, what is written; fingerprints.

#include "tessera/storage/adapter_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tessera/base/error.h"
#include "tessera/config/load.h"
#include "tessera/storage/fingerprint.h"
#include "tests/support/case_path.h"
#include "tests/support/temp_dir.h"

namespace tessera::test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class AdapterFolder {
 public:
  explicit AdapterFolder(const std::string& json) {
    std::ofstream(dir_ / "adapter_config.json") << json;
  }
  const std::filesystem::path& path() const { return dir_.path(); }

 private:
  TempDir dir_;
};

TEST(AdapterConfig, ReadsListsAndPatterns) {
  const AdapterFolder list(R"({"peft_type": "LORA", "r": 4, "lora_alpha": 10,
      "target_modules": ["q_proj", "mlp.up_proj"], "lora_dropout": 0.1})");
  const LoraConfig lora = read_adapter_config(list.path());
  EXPECT_EQ(lora.lora_rank, 4);
  EXPECT_EQ(lora.lora_alpha, 10);
  EXPECT_EQ(lora.lora_dropout, 0.1);
  EXPECT_EQ(lora.target_modules, R"((?:^|\.)(?:q_proj|mlp\.up_proj)$)");
  const AdapterFolder pattern(R"({"r": 1, "lora_alpha": 1, "target_modules": ".*q_proj"})");
  EXPECT_EQ(read_adapter_config(pattern.path()).target_modules, "^(?:.*q_proj)$");
}

TEST(AdapterConfig, RefusesWhatIsNotBuiltByName) {
  for (const char* more : {R"("use_dora": true)", R"("use_rslora": true)", R"("bias": "all")",
                           R"("rank_pattern": {"q_proj": 2})", R"("modules_to_save": ["lm_head"])",
                           R"("peft_type": "IA3")", R"("lora_alpha": 1.5)"}) {
    const std::string json =
        std::string(R"({"r": 1, "lora_alpha": 1, "target_modules": ["q_proj"], )") + more + "}";
    const AdapterFolder folder(json);
    EXPECT_THAT([&] { read_adapter_config(folder.path()); },
                ThrowsMessage<CheckpointError>(HasSubstr("adapter_config.json")))
        << more;
  }
  const AdapterFolder damaged("{");
  EXPECT_THROW(read_adapter_config(damaged.path()), CheckpointError);
  const TempDir empty;
  EXPECT_THROW(read_adapter_config(empty.path()), CheckpointError);
}

TEST(AdapterConfig, TellsARankOrFactorThatDiffers) {
  const AdapterFolder folder(R"({"r": 4, "lora_alpha": 10, "target_modules": ["q_proj"]})");
  LoraConfig lora;
  lora.lora_rank = 4;
  lora.lora_alpha = 10;
  EXPECT_EQ(adapter_problem(folder.path(), lora), "");
  lora.lora_alpha = 8;
  EXPECT_THAT(adapter_problem(folder.path(), lora), HasSubstr("lora_alpha = 10"));
  lora.lora_rank = 8;
  EXPECT_THAT(adapter_problem(folder.path(), lora), HasSubstr("r = 4"));
}

ModelConfig model_of(const std::string& target) {
  const auto file = case_path("lora_qwen3_64") / "config.yaml";
  const ConfigResult result =
      load_config(file.string(), {"lora_config.target_modules='" + target + "'"});
  EXPECT_TRUE(result.ok()) << format_issues(result.issues);
  return result.config.model;
}

TEST(AdapterConfig, IsWrittenByLastNamesWhereTheseAreEnough) {
  const auto written = [](const std::string& target) {
    const AdapterFolder folder(adapter_config_json(model_of(target), "base"));
    return read_adapter_config(folder.path()).target_modules;
  };
  EXPECT_EQ(written("q_proj|o_proj"), R"((?:^|\.)(?:o_proj|q_proj)$)");
  EXPECT_EQ(written(R"(layers\.2.*q_proj)"), R"((?:^|\.)(?:model\.layers\.2\.self_attn\.q_proj)$)");
}

TEST(Fingerprint, IsOfTheContent) {
  const auto model = case_path("lora_qwen3_64") / "model";
  const std::string whole = weights_fingerprint(model);
  EXPECT_EQ(whole.size(), 64U);
  const TempDir dir;
  std::filesystem::copy(model, dir / "copy");
  EXPECT_EQ(weights_fingerprint(dir / "copy"), whole);
  std::fstream file(dir / "copy" / "model.safetensors",
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\x11');
  file.close();
  EXPECT_NE(weights_fingerprint(dir / "copy"), whole);
}

}  // namespace
}  // namespace tessera::test
