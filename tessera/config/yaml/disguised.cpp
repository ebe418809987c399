#include "tessera/config/yaml/disguised.h"

#include <algorithm>
#include <sstream>
#include <vector>

namespace tessera {
namespace {

// Characters that look like those of YAML, in UTF-8.
struct Lookalike {
  std::string_view bytes;
  bool opens;  // no text begins with it
  const char* what;
};
constexpr Lookalike kLookalikes[] = {
    {"\xEF\xBC\x9A", false, "a full-width colon (U+FF1A) where YAML takes ': '"},
    {"\xEF\xBC\x8C", false, "a full-width comma (U+FF0C) where YAML takes ','"},
    {"\xC2\xA0", true, "a no-break space (U+00A0) where YAML takes a plain one"},
    {"\xE2\x80\xAF", true, "a narrow no-break space (U+202F) where YAML takes a plain one"},
    {"\xE3\x80\x80", true, "a full-width space (U+3000) where YAML takes a plain one"},
    {"\xE2\x80\x8B", true, "a space without width (U+200B) where YAML takes none"},
    {"\xE2\x80\x9C", true, "a curly quote (U+201C) where YAML takes a plain one"},
    {"\xE2\x80\x9D", true, "a curly quote (U+201D) where YAML takes a plain one"},
    {"\xE2\x80\x98", true, "a curly quote (U+2018) where YAML takes a plain one"},
    {"\xE2\x80\x99", true, "a curly quote (U+2019) where YAML takes a plain one"},
    {"\xEF\xBC\x82", true, "a full-width quote (U+FF02) where YAML takes a plain one"},
};

// Without comments and what stands between plain quotes.
std::string bare(const std::string& line) {
  std::string out;
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0) {
      if (c == '\\' && quote == '"') ++i;
      if (c == quote) quote = 0;
    } else if ((c == '"' || c == '\'') &&
               (i == 0 || std::string_view(" [{,:").find(line[i - 1]) != std::string_view::npos)) {
      quote = c;
    } else if (c == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) {
      break;
    } else {
      out += c;
    }
  }
  return out;
}

// Empty: nothing is hard to see there.
std::string found_in(const std::string& whole, size_t number) {
  const size_t indent = whole.find_first_not_of(" \t");
  if (indent == std::string::npos) return "";
  const std::string at = std::to_string(number);
  if (whole.substr(0, indent).find('\t') != std::string::npos) {
    return "a tab indents line " + at + ", where YAML takes spaces";
  }
  const std::string line = bare(whole);
  size_t first = std::string::npos;
  std::string what;
  for (const Lookalike& one : kLookalikes) {
    const size_t place = line.find(one.bytes);
    if (place < first) {
      first = place;
      what = "line " + at + " has " + one.what;
    }
  }
  return what;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  return lines;
}

// Lines of a text that goes on: no key begins there.
bool goes_on(const std::string& line) {
  return line.find(": ") == std::string::npos && !line.ends_with(':');
}

}  // namespace

void hint_at_disguised(Issue& issue, const std::string& text) {
  const std::vector<std::string> lines = lines_of(text);
  const auto take = [&](size_t number) {
    std::string what = found_in(lines[number - 1], number);
    if (what.empty()) return false;
    issue.rule += "; " + what;
    issue.source.line = static_cast<int>(number);
    return true;
  };
  const auto count = lines.size();
  const auto at = std::min<size_t>(issue.source.line > 0 ? issue.source.line : 1, count);
  // A text that a wrong character keeps open goes on below.
  for (size_t number = at; number >= 1 && number <= count; ++number) {
    if (number > at && !goes_on(lines[number - 1])) break;
    if (take(number)) return;
  }
  for (size_t number = at; number-- > 1;) {  // the parser stops behind what it took amiss
    if (issue.rule.starts_with("not valid YAML") && take(number)) return;
  }
  for (size_t number = at + 1; issue.rule.starts_with("not valid YAML") && number <= count;
       ++number) {
    if (take(number)) return;
  }
}

bool begins_disguised(std::string_view text) {
  for (const Lookalike& one : kLookalikes) {
    if (one.opens && text.starts_with(one.bytes)) return true;
  }
  return false;
}

}  // namespace tessera
