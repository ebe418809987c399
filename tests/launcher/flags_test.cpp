#include "tessera/launcher/flags/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tessera/base/error.h"
#include "tessera/launcher/flags/engine_flags.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct Values {
  std::string text = "a";
  std::string path;
  std::string alone;
  int64_t number = 3;
  std::optional<int64_t> maybe;
  std::vector<std::string> list;
  bool on = false;
};

std::vector<Flag> flags_of(Values& values) {
  return {{.name = "--text", .value = "T", .target = &values.text, .legal = {"a", "b"}},
          {.name = "--path", .value = "FILE", .target = &values.path, .path = true},
          {.name = "alone", .target = &values.alone, .path = true},
          {.name = "--number", .value = "N", .target = &values.number, .least = 1, .most = 9},
          {.name = "--maybe", .value = "N", .target = &values.maybe},
          {.name = "--list", .value = "T", .target = &values.list, .many = true},
          {.name = "--on", .target = &values.on}};
}

std::string refusal(const std::vector<std::string>& arguments) {
  Values values;
  try {
    parse_flags(flags_of(values), arguments, "p");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Flags, BothWaysToWriteAValue) {
  Values values;
  EXPECT_FALSE(parse_flags(flags_of(values),
                           {"--text", "b", "--number=9", "--list", "x", "y", "--on",
                            "--list=z=", "word", "--maybe", "0"},
                           "p"));
  EXPECT_EQ(values.text, "b");
  EXPECT_EQ(values.number, 9);
  EXPECT_EQ(values.maybe, 0);
  EXPECT_TRUE(values.on);
  EXPECT_THAT(values.list, ElementsAre("x", "y", "z=", "word"));  // many: up to the next flag
}

TEST(Flags, EveryFlagThatTakesAValueRefusesToGoWithout) {
  Values values;
  for (const Flag& flag : flags_of(values)) {
    if (flag.value.empty()) continue;
    EXPECT_THAT(refusal({flag.name + "=", "--on"}), HasSubstr(flag.name + "=: has no value"));
    EXPECT_THAT(refusal({flag.name, "", "--on"}), HasSubstr(flag.name + "=: has no value"));
    EXPECT_THAT(refusal({flag.name, "--on"}), HasSubstr("the next flag follows, --on"));
    EXPECT_THAT(refusal({flag.name}), HasSubstr(flag.name));
    EXPECT_THAT(refusal({flag.name}), HasSubstr("has no value"));
  }
}

TEST(Flags, AfterTwoDashesNoFlagsFollow) {
  Values values;
  EXPECT_FALSE(parse_flags(flags_of(values), {"--on", "--", "--text"}, "p"));
  EXPECT_EQ(values.alone, "--text");
  EXPECT_EQ(values.text, "a");
}

TEST(Flags, RefusedByName) {
  EXPECT_THAT(refusal({"--number=0"}), HasSubstr("--number=0: must be a whole number, 1 to 9"));
  for (const char* text : {"--number=0x3", "--number=3.0", "--number=+3", "--number= 3",
                           "--number=99999999999999999999", "--maybe=-1"}) {
    EXPECT_THAT(refusal({text}), HasSubstr(std::string(text) + ": must be a whole number"));
  }
  EXPECT_THAT(refusal({"--text=c"}), HasSubstr("--text=c: legal are a, b"));
  EXPECT_THAT(refusal({"--nunber=3"}), HasSubstr("did you mean --number?"));
  EXPECT_THAT(refusal({"--on=True"}), HasSubstr("--on=True: this flag has no value"));
  EXPECT_THAT(refusal({"--text=a", "--text=b"}), HasSubstr("--text is given more than once"));
  EXPECT_THAT(refusal({"one", "two"}), HasSubstr("two: a value without a flag"));
}

TEST(Flags, PathsAreExpandedOrRefusedByName) {
  ::setenv("TESSERA_TEST_PLACE", "/place", 1);
  ::unsetenv("TESSERA_TEST_UNSET");
  const std::string home = std::getenv("HOME") != nullptr ? std::getenv("HOME") : "";
  const auto path = [](const std::string& text) {
    Values values;
    parse_flags(flags_of(values), {"--path=" + text, text}, "p");
    EXPECT_EQ(values.path, values.alone);
    return values.path;
  };
  EXPECT_EQ(path("$TESSERA_TEST_PLACE/a"), "/place/a");
  EXPECT_EQ(path("x${TESSERA_TEST_PLACE}y"), "x/placey");
  EXPECT_EQ(path("a$$b"), "a$b");
  if (!home.empty()) {
    EXPECT_EQ(path("~/a"), home + "/a");
  }
  EXPECT_THAT(refusal({"--path=~root/a"}), HasSubstr("--path=~root/a: begins with ~root"));
  EXPECT_THAT(refusal({"--path=$TESSERA_TEST_UNSET"}),
              HasSubstr("TESSERA_TEST_UNSET, which is not set"));
  EXPECT_THAT(refusal({"$/x"}), HasSubstr("alone=$/x: has a $ that begins no $NAME"));
}

TEST(Flags, TheEngineReadsWhatTheFrontWrote) {
  TrainFlags front;
  front.config = "~odd/$name with space";
  front.ranks = 4;
  front.overrides = {"a.b=-1", "--looks=like a flag", "c.d="};
  front.trace = "-t";
  front.dry_run = true;
  const std::vector<std::string> arguments = engine_arguments(flags_of(front));
  EXPECT_THAT(arguments, Not(testing::Contains("--dry-run")));
  TrainFlags engine;
  EXPECT_FALSE(parse_flags(flags_of(engine), arguments, "engine"));
  EXPECT_EQ(engine.config, "./" + front.config);  // the same file
  EXPECT_EQ(engine.ranks, front.ranks);
  EXPECT_EQ(engine.overrides, front.overrides);
  EXPECT_EQ(engine.trace, front.trace);

  InspectFlags seen;
  seen.path = "-folder";
  seen.verify = true;
  InspectFlags read;
  parse_flags(flags_of(read), engine_arguments(flags_of(seen)), "engine");
  EXPECT_EQ(read.path, "./-folder");
  EXPECT_TRUE(read.verify);
}

TEST(Flags, HelpNamesEveryFlagOnceAndHidesTheEngines) {
  TrainFlags train;
  const std::string help = flag_help("tessera train", "trains", flags_of(train), "Examples");
  EXPECT_THAT(help, HasSubstr("Usage: tessera train --config FILE [flags]\n"));
  EXPECT_THAT(help, HasSubstr("  --trace FILE "));
  EXPECT_THAT(help, Not(HasSubstr("--plant")));
  ParityFlags parity;
  EXPECT_THAT(flag_help("tessera parity", "compares", flags_of(parity), ""),
              HasSubstr("(float64, float32, bfloat16); default"));
}

}  // namespace
}  // namespace tessera
