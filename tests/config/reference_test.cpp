#include "tessera/config/fields/reference.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "tessera/config/fields/field.h"
#include "tests/config/config_testing.h"

namespace tessera {
namespace {

TEST(Reference, DocumentIsThatOfTheTable) {
  const std::string path = std::string(TESSERA_SOURCE_DIR) + "/docs/config.md";
  if (std::getenv("TESSERA_WRITE_DOCS")) std::ofstream(path) << config_reference();
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), config_reference())
      << "write docs/config.md anew: TESSERA_WRITE_DOCS=1 and this test";
}

TEST(Fields, PathsAreUniqueAndDefaultsLegal) {
  std::set<std::string_view> paths;
  for (const Field& field : all_fields()) {
    EXPECT_TRUE(paths.insert(field.path).second) << field.path;
    EXPECT_FALSE(field.doc.empty()) << field.path;
    EXPECT_FALSE(is_section(field.path)) << field.path;
    EXPECT_EQ(find_field(field.path), &field);
  }
  for (const Alias& alias : all_aliases()) {
    const std::string first = std::string(alias.section) + "." + std::string(alias.first);
    EXPECT_TRUE(find_field(first) || is_section(first)) << first;
    EXPECT_FALSE(find_field(std::string(alias.section) + "." + std::string(alias.name)));
  }
}

TEST(Fields, EveryDefaultIsReadBack) {
  for (const Field& field : all_fields()) {
    if (!field.address) continue;
    const Config config;
    std::vector<Issue> issues;
    const std::string text = field.type->write(field.address_in(config));
    const Value value = parse_inline(text, "default", issues);
    Config read;
    EXPECT_EQ(field.type->read(value, field.address(read)), std::nullopt) << field.path;
    EXPECT_TRUE(field.type->equal(field.address_in(read), field.address_in(config))) << field.path;
  }
}

// What the table says of a key against the code that uses it: a member that is read by the engine
// or the planner has an effect, and one that nothing reads has none.
TEST(Fields, EffectsAreThoseOfTheCode) {
  namespace fs = std::filesystem;
  std::string config, others;
  for (const auto& entry : fs::recursive_directory_iterator(TESSERA_SOURCE_DIR "/tessera")) {
    const std::string path = entry.path(), name = entry.path().filename();
    if (!name.ends_with(".cpp") && !name.ends_with(".h")) continue;
    const bool is_table =
        name.starts_with("fields_") || name == "config.h" || name == "model_config.h";
    if (is_table) continue;
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    const bool judges = path.find("/tessera/config/") != std::string::npos ||
                        path.find("/tessera/layout/") != std::string::npos ||
                        path.find("/tessera/rules/") != std::string::npos;
    (judges ? config : others) += text.str();
  }
  const auto uses = [](const std::string& text, const Field& field) {
    const std::string member(field.path.substr(field.path.rfind('.') + 1));
    return std::regex_search(text, std::regex("[.>]" + member + "\\b"));
  };
  for (const Field& field : all_fields()) {
    if (!field.address) continue;
    // Of one legal value nothing needs to be read.
    const bool one_value = !field.choices.empty() && field.choices.find(',') == std::string::npos;
    if (field.effect == Effect::kNoEffect || field.effect == Effect::kFixed) {
      EXPECT_FALSE(uses(others, field)) << field.path << " has an effect";
    } else if (field.effect == Effect::kHonoured && !one_value) {
      EXPECT_TRUE(uses(config + others, field)) << field.path << " has no effect";
    }
  }
}

}  // namespace
}  // namespace tessera
