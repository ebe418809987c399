#pragma once

// Random damage to a YAML file, the same for the same seed.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace tessera::test {

inline std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

inline std::string join_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

/// Changes one to three lines of a file: they go, come twice, are misspelt, moved, or get other
/// values.
class YamlMutator {
 public:
  explicit YamlMutator(uint64_t seed) : random_(seed) {}

  /// A damaged copy, as text.
  std::string mutate(std::vector<std::string> lines) {
    const int times = 1 + pick(3);
    for (int i = 0; i < times && !lines.empty(); ++i) mutate_line(lines);
    return join_lines(lines);
  }

  /// In [0, n).
  int pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }

 private:
  void mutate_line(std::vector<std::string>& lines) {
    const size_t at = static_cast<size_t>(pick(static_cast<int>(lines.size())));
    std::string& line = lines[at];
    switch (pick(9)) {
      case 0:  // missing
        lines.erase(lines.begin() + static_cast<long>(at));
        return;
      case 1: {  // doubled
        const std::string copy = line;
        lines.insert(lines.begin() + static_cast<long>(at), copy);
        return;
      }
      case 2:  // misspelt
        if (!line.empty()) line.erase(static_cast<size_t>(pick(static_cast<int>(line.size()))), 1);
        return;
      case 3:  // moved in or out
        line = pick(2) ? "  " + line : line.substr(std::min<size_t>(2, line.size()));
        return;
      case 4:  // a random byte
        if (!line.empty()) {
          line[static_cast<size_t>(pick(static_cast<int>(line.size())))] =
              static_cast<char>(pick(256));
        }
        return;
      default: {  // another value
        static const char* kValues[] = {"-1",
                                        "0",
                                        "1",
                                        "2",
                                        "3",
                                        "7",
                                        "1000000000",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "99999999999999999999",
                                        "1e308",
                                        "1e-320",
                                        "-0.5",
                                        "0.5",
                                        ".nan",
                                        ".inf",
                                        "true",
                                        "null",
                                        "''",
                                        "abc",
                                        "[]",
                                        "[1, 2]",
                                        "['0-1', '2-3']",
                                        "{}",
                                        "{a: 1}",
                                        "auto",
                                        "[[]]",
                                        "\"\\x00\"",
                                        "*a",
                                        "&a b",
                                        "0x7f",
                                        "4",
                                        "8",
                                        "64",
                                        "ulysses",
                                        "hybrid",
                                        "[-1, -1, -1]",
                                        "['3-1']",
                                        "bfloat16",
                                        "float16",
                                        "llama",
                                        "deepseek_v3",
                                        "!!int x"};
        const size_t colon = line.find(':');
        if (colon == std::string::npos) return;
        line = line.substr(0, colon + 1) + " " + kValues[pick(std::size(kValues))];
        return;
      }
    }
  }

  std::mt19937_64 random_;
};

}  // namespace tessera::test
