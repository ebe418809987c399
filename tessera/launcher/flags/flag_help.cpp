#include <algorithm>

#include "tessera/config/fields/field_type.h"
#include "tessera/config/yaml/value.h"
#include "tessera/launcher/flags/flags.h"

namespace tessera {
namespace {

constexpr size_t kWidth = 100;
constexpr size_t kWidestName = 26;

std::string shown_name(const Flag& flag) {
  if (!flag.name.starts_with("-")) return flag.name;
  return flag.value.empty() ? flag.name : flag.name + " " + flag.value;
}

struct DefaultText {
  std::string operator()(const bool*) const { return ""; }
  std::string operator()(const std::string* text) const { return *text; }
  std::string operator()(const std::vector<std::string>*) const { return ""; }
  std::string operator()(const std::optional<int64_t>*) const { return ""; }
  std::string operator()(const double* number) const { return write_float(*number); }
  template <typename Number>
  std::string operator()(const Number* number) const {
    return std::to_string(*number);
  }
};

std::string shown_help(const Flag& flag) {
  std::string text = flag.help;
  if (!flag.legal.empty()) {
    std::string words;
    for (const std::string& word : flag.legal) words += (words.empty() ? "" : ", ") + word;
    text += " (" + words + ")";
  }
  if (flag.required) return text + "; needed";
  const std::string standard = std::visit(DefaultText(), flag.target);
  return standard.empty() ? text : text + "; default " + standard;
}

// Lines of at most kWidth, all but the first indented.
std::string wrapped(const std::string& text, size_t indent) {
  std::string result;
  size_t column = indent;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    if (column > indent && column + 1 + (end - begin) > kWidth) {
      result += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      result += ' ';
      ++column;
    }
    result.append(text, begin, end - begin);
    column += end - begin;
    begin = end + 1;
  }
  return result;
}

}  // namespace

std::string flag_help(const std::string& program, const std::string& does,
                      const std::vector<Flag>& flags, const std::string& end) {
  std::string usage = "Usage: " + program;
  std::string rows;
  size_t widest = 0;
  for (const Flag& flag : flags) widest = std::max(widest, shown_name(flag).size());
  const size_t indent = 2 + std::min(widest, kWidestName) + 2;
  bool optional = false;
  for (const Flag& flag : flags) {
    if (flag.reader == FlagReader::kEngine) continue;
    const std::string name = shown_name(flag);
    if (flag.required) usage += " " + name + (flag.many ? "..." : "");
    optional = optional || !flag.required;
    std::string row = "  " + name;
    row += row.size() + 2 > indent ? "\n" + std::string(indent, ' ')
                                   : std::string(indent - row.size(), ' ');
    rows += row + wrapped(shown_help(flag), indent) + "\n";
  }
  if (optional && usage.find("[flags]") == std::string::npos) usage += " [flags]";
  return does + "\n" + usage + "\n\n" + rows + "\n" + end + "\n";
}

}  // namespace tessera
