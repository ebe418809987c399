#include "tessera/data/text/json_field.h"

#include "tessera/data/text/json_scanner.h"

namespace tessera {

namespace {

// Whether the string that `scanner` stands at is `key`; passes over it.
bool take_key(JsonScanner& scanner, std::string_view line, std::string_view key, bool& is_key) {
  JsonScanner reader = scanner;
  const size_t begin = scanner.position();
  if (!scanner.skip_string()) return false;
  const std::string_view raw = line.substr(begin + 1, scanner.position() - begin - 2);
  std::string decoded;
  is_key = raw == key || (raw.find('\\') != std::string_view::npos && reader.read_string(decoded) &&
                          decoded == key);
  return true;
}

// Passes over the object. `found` becomes a scanner at the value of the last field `key`.
bool walk_object(JsonScanner& scanner, std::string_view line, std::string_view key,
                 std::optional<JsonScanner>& found) {
  scanner.skip_space();
  if (scanner.take('}')) return true;
  for (;;) {
    bool is_key = false;
    scanner.skip_space();
    if (!take_key(scanner, line, key, is_key)) return false;
    scanner.skip_space();
    if (!scanner.take(':')) return scanner.fail("a colon is missing");
    scanner.skip_space();
    if (is_key) found = scanner;
    if (!scanner.skip_value()) return false;
    scanner.skip_space();
    if (scanner.take('}')) return true;
    if (!scanner.take(',')) {
      return scanner.fail(scanner.at_end() ? "it ends too early" : "a comma or } is missing");
    }
  }
}

}  // namespace

std::optional<TextFault> read_json_field(std::string_view line, std::string_view key,
                                         std::string& text) {
  JsonScanner scanner(line);
  scanner.skip_space();
  const size_t begin = scanner.position();
  std::optional<JsonScanner> found;
  if (!scanner.take('{')) {
    if (!scanner.skip_value()) return TextFault{"no JSON: " + scanner.why(), scanner.position()};
    return TextFault{"no JSON object", begin};
  }
  if (!walk_object(scanner, line, key, found)) {
    return TextFault{"no JSON: " + scanner.why(), scanner.position()};
  }
  scanner.skip_space();
  if (!scanner.at_end()) return TextFault{"no JSON: more after the object", scanner.position()};
  const std::string name = "field \"" + std::string(key) + "\"";
  if (!found) return TextFault{"no " + name, begin};
  if (line[found->position()] != '"') return TextFault{name + " is no text", found->position()};
  if (!found->read_string(text)) {
    return TextFault{name + " holds " + found->why(), found->position()};
  }
  return std::nullopt;
}

JsonStart json_start(std::string_view line) {
  JsonScanner scanner(line);
  scanner.skip_space();
  const size_t begin = scanner.position();
  if (!scanner.skip_value())
    return scanner.ended_early() ? JsonStart::kUnfinished : JsonStart::kNone;
  scanner.skip_space();
  if (!scanner.at_end()) return JsonStart::kNone;
  return line[begin] == '{' ? JsonStart::kObject : JsonStart::kValue;
}

}  // namespace tessera
