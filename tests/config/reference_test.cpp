#include "tessera/config/reference.h"

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "config_testing.h"
#include "tessera/config/field.h"

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

}  // namespace
}  // namespace tessera
