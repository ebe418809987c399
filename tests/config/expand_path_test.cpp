#include "tessera/config/expand_path.h"

#include <cstdlib>

#include "tessera/base/error.h"
#include "tessera/config/writer.h"
#include "tests/config/config_testing.h"

namespace tessera {
namespace {

using testing::HasSubstr;

std::string expand(const std::string& path) {
  std::string problem;
  const std::string expanded = expand_path(path, problem);
  return problem.empty() ? expanded : "refused: " + problem;
}

class ExpandPath : public testing::Test {
 protected:
  ExpandPath() {
    ::setenv("HOME", "/home/me", 1);
    ::setenv("TESSERA_TEST_RUN", "run 7", 1);
    ::unsetenv("TESSERA_TEST_UNSET");
  }
};

TEST_F(ExpandPath, HomeVariablesAndDollarSigns) {
  EXPECT_EQ(expand("~"), "/home/me");
  EXPECT_EQ(expand("~/run"), "/home/me/run");
  EXPECT_EQ(expand("a/~/b"), "a/~/b");
  EXPECT_EQ(expand("$HOME/ck"), "/home/me/ck");
  EXPECT_EQ(expand("x/${TESSERA_TEST_RUN}y/$TESSERA_TEST_RUN"), "x/run 7y/run 7");
  EXPECT_EQ(expand("a$$b$$$$"), "a$b$$");
  EXPECT_EQ(expand(""), "");
}

TEST_F(ExpandPath, WhatIsNotKnownIsRefusedByName) {
  EXPECT_THAT(expand("~anna/run"), HasSubstr("refused: begins with ~anna,"));
  EXPECT_THAT(expand("~anna"), HasSubstr("~anna"));
  EXPECT_THAT(expand("$TESSERA_TEST_UNSET/x"), HasSubstr("TESSERA_TEST_UNSET, which is not set"));
  EXPECT_THAT(expand("${TESSERA_TEST_UNSET}"), HasSubstr("TESSERA_TEST_UNSET, which is not set"));
  for (const char* path : {"a$", "a$/b", "${}", "${HOME", "$1", "${HOME:-x}"}) {
    EXPECT_THAT(expand(path), HasSubstr("refused: has a $")) << path;
  }
}

TEST_F(ExpandPath, EveryPathOfTheFileWithItsLine) {
  const auto result = load_config_text(
      "output_dir: ~/run\ncheckpoint:\n  save_path: $HOME/ck\n  load_path: '${HOME}/$$x'\n"
      "train_dataset:\n  dataloader:\n    config:\n      data_path: [0.5, ~/a, 0.5, $HOME/b]\n"
      "      path_to_cache: ~/cache\n",
      "x.yaml", "/nonexistent", {});
  EXPECT_EQ(result.config.output_dir, "/home/me/run");
  EXPECT_EQ(result.config.checkpoint.save_path, "/home/me/ck");
  EXPECT_EQ(result.config.checkpoint.load_path, "/home/me/$x");
  const DatasetConfig& data = result.config.train_dataset.dataloader.config;
  EXPECT_EQ(*data.data_path, (std::vector<std::string>{"0.5", "/home/me/a", "0.5", "/home/me/b"}));
  EXPECT_EQ(data.path_to_cache, "/home/me/cache");

  const auto wrong =
      load_config_text("output_dir: ~anna/run\ncheckpoint:\n  save_path: $TESSERA_TEST_UNSET/ck\n",
                       "x.yaml", ".", {});
  EXPECT_THAT(wrong.issues, testing_config::HasError("output_dir", "x.yaml:1: "));
  EXPECT_THAT(wrong.issues, testing_config::HasError("checkpoint.save_path",
                                                     "x.yaml:3: checkpoint.save_path = "
                                                     "$TESSERA_TEST_UNSET/ck: names the"));
}

TEST_F(ExpandPath, AWrittenConfigurationIsReadBackWithTheSamePaths) {
  Config config;
  config.output_dir = "~odd/$HOME$";
  const auto read = load_config_text(to_yaml(config), "x.yaml", ".", {});
  EXPECT_EQ(read.config.output_dir, "./~odd/$HOME$");
}

}  // namespace
}  // namespace tessera
