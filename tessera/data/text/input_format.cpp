#include "tessera/data/text/input_format.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/data/text/json_field.h"
#include "tessera/data/text/json_scanner.h"

namespace tessera {

namespace {

struct Lines {
  std::vector<std::string_view> complete;  // without blank ones
  std::string_view rest;                   // cut off by the end of the head
};

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

Lines lines_of(const InputHead& input) {
  Lines lines;
  std::string_view head = input.head;
  while (!head.empty()) {
    const size_t end = head.find('\n');
    const std::string_view line = head.substr(0, end);
    if (end == std::string_view::npos && !input.whole) {
      lines.rest = line;
    } else if (!is_blank(line)) {
      lines.complete.push_back(line);
    }
    head.remove_prefix(end == std::string_view::npos ? head.size() : end + 1);
  }
  return lines;
}

// Whether the name ends so, in any case and before endings of compression and numbers of parts.
bool named_as_json_lines(const std::string& name) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::filesystem::path path = lower;
  for (int i = 0; i < 3; ++i) {
    const std::string ending = path.extension();
    if (ending == ".jsonl" || ending == ".ndjson" || ending == ".json") return true;
    path = path.stem();
  }
  return false;
}

bool begins_with_bracket(std::string_view line, char bracket) {
  const size_t at = line.find_first_not_of(" \t\r");
  return at != std::string_view::npos && line[at] == bracket;
}

// JSON values that begin here and go on over the line's end, or one array in one line.
std::optional<RefusedKind> refused_json(const InputHead& input, const Lines& lines) {
  const bool one_line = lines.complete.size() + (lines.rest.empty() ? 0 : 1) == 1;
  const std::string_view first = lines.complete.empty() ? lines.rest : lines.complete.front();
  const bool array = begins_with_bracket(first, '[');
  if (!array && !begins_with_bracket(first, '{')) return std::nullopt;
  if (!one_line && json_start(first) == JsonStart::kValue) return std::nullopt;
  JsonScanner scanner(input.head);
  if (!scanner.skip_value()) {
    if (!scanner.ended_early()) return std::nullopt;
  } else {
    scanner.skip_space();
    if (!scanner.at_end() && !scanner.take(array ? '[' : '{')) return std::nullopt;
  }
  if (array) {
    return RefusedKind{
        "one JSON array",
        "make JSON lines of it: jq -c '.[]' FILE | tessera preprocess --input - ..."};
  }
  if (one_line) return std::nullopt;
  return RefusedKind{"JSON objects that go over several lines",
                     "make JSON lines of them: jq -c . FILE | tessera preprocess --input - ..."};
}

}  // namespace

std::string to_string(TextFormat format) {
  switch (format) {
    case TextFormat::kText: return "text";
    case TextFormat::kBytes: return "bytes taken as text";
    case TextFormat::kJsonLines: return "JSON lines";
  }
  return "?";
}

TextFormat recognise(const InputHead& input) {
  const auto refuse = [&](RefusedKind kind) {
    const std::string file = "FILE";
    const size_t at = kind.instead.find(file);
    if (at != std::string::npos) {
      kind.instead.replace(at, file.size(), input.name == "standard input" ? "FILE" : input.name);
    }
    throw ConfigError(input.name + ": this is " + kind.what + "; " + kind.instead);
  };
  if (const auto kind = refused_binary(input.head)) refuse(*kind);
  const Lines lines = lines_of(input);
  if (lines.complete.empty() && is_blank(lines.rest)) return TextFormat::kText;

  // The first line decides; where it is broken, those after it do.
  const auto is_object = [](std::string_view line) {
    return json_start(line) == JsonStart::kObject;
  };
  if (!lines.complete.empty() && is_object(lines.complete.front())) return TextFormat::kJsonLines;
  if (lines.complete.empty() && begins_with_bracket(lines.rest, '{') &&
      json_start(lines.rest) == JsonStart::kUnfinished) {
    return TextFormat::kJsonLines;  // one line longer than the head
  }
  const auto objects = std::count_if(lines.complete.begin(), lines.complete.end(), is_object);
  const auto others = static_cast<int64_t>(lines.complete.size()) - objects;
  const std::string_view first = lines.complete.empty() ? lines.rest : lines.complete.front();
  const auto json = refused_json(input, lines);
  const bool is_array = json && begins_with_bracket(first, '[');
  if (objects > 0 && objects >= others && !is_array) return TextFormat::kJsonLines;
  if (json) refuse(*json);
  if (named_as_json_lines(input.name)) return TextFormat::kJsonLines;
  if (begins_with_bracket(first, '{') && first.find('"') != std::string_view::npos &&
      json_start(first) == JsonStart::kUnfinished && lines.complete.size() == 1 &&
      lines.rest.empty()) {
    return TextFormat::kJsonLines;  // cut off; its fault is told when it is read
  }
  if (const auto kind = refused_table(input)) refuse(*kind);
  return TextFormat::kText;
}

}  // namespace tessera
