#include "tessera/launcher/flags/script_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const std::vector<std::string>& arguments) {
  try {
    parse_script_arguments(arguments);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ScriptArguments, ConfigAndMode) {
  const ScriptArguments script = parse_script_arguments({"--config", "x.yaml", "--mode", "1"});
  EXPECT_EQ(script.config, "x.yaml");
  EXPECT_TRUE(script.no_effect.empty());
}

TEST(ScriptArguments, EqualSigns) {
  const ScriptArguments script =
      parse_script_arguments({"--config=x.yaml", "--mode=1", "--set=training.steps=2"});
  EXPECT_EQ(script.config, "x.yaml");
  EXPECT_THAT(script.overrides, ElementsAre("training.steps=2"));
}

TEST(ScriptArguments, FlagsOfTheReferenceAreNamedOnce) {
  const ScriptArguments script =
      parse_script_arguments({"--config", "x.yaml", "--register_path", "a", "--use_parallel",
                              "True", "--seed=-3", "--use_parallel", "False"});
  EXPECT_THAT(script.no_effect, ElementsAre("--register_path", "--use_parallel", "--seed"));
}

TEST(ScriptArguments, ANegativeNumberIsAValue) {
  EXPECT_THAT(parse_script_arguments({"--config", "x", "--seed", "-3"}).no_effect,
              ElementsAre("--seed"));
}

TEST(ScriptArguments, EverythingWrongAtOnce) {
  const std::string text = refusal({"--mode", "0", "stray", "--use_parallel"});
  EXPECT_THAT(text, HasSubstr("--mode 0: only 1"));
  EXPECT_THAT(text, HasSubstr("stray: a value without a flag"));
  EXPECT_THAT(text, HasSubstr("--use_parallel: has no value"));
  EXPECT_THAT(text, HasSubstr("--config FILE is missing"));
}

TEST(ScriptArguments, AFlagWithoutAValueTakesNotTheNext) {
  EXPECT_THAT(refusal({"--config=", "--mode", "1"}), HasSubstr("--config=: has no value"));
  EXPECT_THAT(refusal({"--config", "--mode", "1"}), HasSubstr("the next flag follows, --mode"));
  EXPECT_THAT(refusal({"--config", "x", "--trace", ""}), HasSubstr("--trace=: has no value"));
  EXPECT_THAT(parse_script_arguments({"--config", "x", "--load_checkpoint="}).no_effect,
              ElementsAre("--load_checkpoint"));
}

}  // namespace
}  // namespace tessera
