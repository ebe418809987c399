#include "tessera/layout/loader_options.h"

#include <gtest/gtest.h>

#include "tessera/layout/training_data.h"

namespace tessera {
namespace {

TEST(LoaderOptions, EitherSwitchPacksDocuments) {
  for (const bool compressed : {false, true}) {
    for (const bool reset : {false, true}) {
      Config config;
      DatasetConfig& data = config.train_dataset.dataloader.config;
      data.create_compressed_eod_mask = compressed;
      data.reset_attention_mask = reset;
      EXPECT_EQ(packs_documents(data), compressed || reset);
      EXPECT_EQ(loader_options(config, {}, {}, 0).columns.packed, compressed || reset);
    }
  }
}

TEST(LoaderOptions, KnowTheLabelsThatDoNotCount) {
  Config config;
  config.model.ignore_token_id = 7;
  config.train_dataset.dataloader.config.pad = 3;
  const ColumnOptions columns = loader_options(config, {}, {}, 0).columns;
  EXPECT_EQ(columns.ignored, 7);
  EXPECT_EQ(columns.pad, 3);
}

}  // namespace
}  // namespace tessera
