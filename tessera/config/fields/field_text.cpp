#include "tessera/config/fields/field_text.h"

#include "tessera/base/error.h"
#include "tessera/config/fields/field.h"
#include "tessera/config/yaml/value.h"

namespace tessera {
namespace {

const Field& field_at(std::string_view path) {
  const Field* field = find_field(path);
  TESSERA_CHECK(field && field->address, "no stored key ", path);
  return *field;
}

}  // namespace

void set_field(Config& config, std::string_view path, std::string_view text) {
  const Field& field = field_at(path);
  Value value;
  value.text = text;
  const auto wrong = field.type->read(value, field.address(config));
  TESSERA_CHECK(!wrong, path, " = ", text, ": ", *wrong);
}

bool has_value(const Config& config, std::string_view path, std::string_view text) {
  Config other;
  set_field(other, path, text);
  const Field& field = field_at(path);
  return field.type->equal(field.address_in(config), field.address_in(other));
}

}  // namespace tessera
