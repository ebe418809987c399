#include "tessera/config/yaml/disguised.h"

#include "tests/config/config_testing.h"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string errors(const std::string& text) {
  return testing_config::errors_of(load_config_text(text, "x.yaml", ".", {}).issues);
}

TEST(Disguised, WhatLooksLikeYamlIsNamedOnItsLine) {
  for (const auto& [text, line, what] :
       {std::tuple{"training:\n  seed: 1\n  steps\xEF\xBC\x9A 5\n", 3, "U+FF1A"},
        std::tuple{"training:\n  steps\xEF\xBC\x9A 5\n  seed: 1\n", 2, "U+FF1A"},
        std::tuple{"training:\n  seed: 1\n  steps:\xC2\xA0"
                   "5\n",
                   3, "U+00A0"},
        std::tuple{"training:\n\xC2\xA0\xC2\xA0steps: 5\n", 2, "U+00A0"},
        std::tuple{"training:\n  steps: \xC2\xA0"
                   "5\n",
                   2, "U+00A0"},
        std::tuple{"output_dir: out\ncheckpoint:\n  save_path: \xE2\x80\x9Cx\xE2\x80\x9D\n", 3,
                   "U+201C"},
        std::tuple{"optimizer:\n  type: \xE2\x80\x98SGD\xE2\x80\x99\n", 2, "U+2018"}}) {
    const std::string said = errors(text);
    EXPECT_THAT(said, HasSubstr(what)) << text;
    EXPECT_THAT(said, HasSubstr("x.yaml:" + std::to_string(line) + ":")) << text;
    EXPECT_THAT(said, HasSubstr("line " + std::to_string(line) + " has")) << text;
  }
}

TEST(Disguised, LegalTextsAreLeftAlone) {
  EXPECT_EQ(errors("output_dir: a\xEF\xBC\x9A"
                   "b\xE2\x80\x99s\n"),
            "");
  EXPECT_EQ(errors("output_dir: \"\xE2\x80\x9Cx\"\n"), "");
  EXPECT_THAT(errors("output_dir: x # \xE2\x80\x9C\ntraining: {steps: a}\n"),
              Not(HasSubstr("U+201C")));
}

TEST(Disguised, SectionsOfAnchorsAreLegalAtTheTop) {
  EXPECT_EQ(errors("_base: &b {steps: 5}\nx-more: &m {seed: 3}\n.other: 1\n"
                   "training:\n  <<: [*b, *m]\n"),
            "");
  EXPECT_THAT(errors("training:\n  _base: 1\n"), HasSubstr("unknown key"));
  EXPECT_THAT(errors("base: {steps: 5}\n"), HasSubstr("unknown key"));
}

}  // namespace
}  // namespace tessera
