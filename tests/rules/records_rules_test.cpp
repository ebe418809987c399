// Rules of an HFDataLoader, and what its keys resolve to.

#include "tessera/config/writer.h"
#include "tessera/rules/validate.h"
#include "tests/config/config_testing.h"

namespace tessera {
namespace {

using namespace testing_config;
using Sets = std::vector<std::string>;

const std::string kLoader = "train_dataset.dataloader.";

Sets records(const Sets& more) {
  Sets sets = {kLoader + "type=HFDataLoader", kLoader + "path=json",
               kLoader + "data_files=/data/a.json", kLoader + "tokenizer=/data/tokenizer"};
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

TEST(ValidateRecords, WhatIsNeededAndWhatIsRefused) {
  EXPECT_THAT(check_base(8, records({})), HasNoErrors());
  const auto missing = check_base(8, {kLoader + "type=HFDataLoader"});
  for (const char* key : {"path", "data_files", "tokenizer"}) {
    EXPECT_THAT(missing, HasError(kLoader + key, "is needed")) << key;
  }
  const struct {
    const char* set;
    const char* key;
    const char* says;
  } cases[] = {
      {"path=tatsu-lab/alpaca", "path", "there is no network"},
      {"packing=truncate", "packing", "must be pack, true or false"},
      {"split=test", "split", "must be train"},
      {"too_long=wrap", "too_long", "must be one of cut, drop"},
      {"load_func=load_from_disk", "load_func", "must be load_dataset"},
      {"seq_length=-1", "seq_length", "must be at least 0"},
      {"handler=[{n: 3}]", "handler", "needs a type"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(check_base(8, records({kLoader + c.set})), HasError(kLoader + c.key, c.says))
        << c.set;
  }
}

TEST(ValidateRecords, AHandlerSaysWhatTheLoaderDoesNot) {
  const Sets sets = records(
      {kLoader + "handler=[{type: take, n: 5}, {type: AlpacaInstructDataHandler, seq_length: 64, "
                 "tokenizer: {pretrained_model_dir: /t, trust_remote_code: false}}, "
                 "{type: PackingHandler, seq_length: 64, pack_strategy: pack}]"});
  const ConfigResult result = load_config_text(kBase, "base.yaml", ".", sets);
  const DataloaderConfig& loader = result.config.train_dataset.dataloader;
  ASSERT_EQ(loader.handler.size(), 3U);
  EXPECT_EQ(loader.handler[0].args.at("n"), std::vector<std::string>{"5"});
  EXPECT_EQ(loader.handler[1].args.at("tokenizer"), std::vector<std::string>{"/t"});
  EXPECT_EQ(loader.packing, "pack");
  EXPECT_TRUE(loader.config.create_compressed_eod_mask);
  EXPECT_EQ(loader.config.seq_length, 64);
  EXPECT_EQ(loader.datasets_type, "SFTDataset");
  EXPECT_EQ(*loader.data_files, std::vector<std::string>{"/data/a.json"});
  // What is written reads back to the same.
  const ConfigResult again = load_config_text(to_yaml(result.config), "again.yaml", ".", {});
  EXPECT_EQ(again.config.train_dataset, result.config.train_dataset);
}

}  // namespace
}  // namespace tessera
